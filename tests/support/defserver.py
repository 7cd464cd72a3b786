#!/usr/bin/env python3
"""A legacy server whose definitions are files, read at every list, and sent byte for byte.

``BASE.tools`` and ``BASE.prompts`` are arrays, ``BASE.instructions`` plain text, ``BASE.result.TOOL``
what a call answers. A call of any tool is written to ``BASE.journal``. With ``--watch`` a change
of ``BASE.tools`` is told; with ``--restless`` each list has other texts, and that is told.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("base")
parser.add_argument("--watch", action="store_true")
parser.add_argument("--restless", action="store_true")
opt = parser.parse_args()
lock = threading.Lock()
lists = 0


def read(kind: str) -> str | None:
    try:
        with open(f"{opt.base}.{kind}", encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None


def send(text: str) -> None:
    with lock:
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


def reply(ident: Any, result: str) -> None:
    send(f'{{"jsonrpc":"2.0","id":{json.dumps(ident)},"result":{result}}}')


def tell(kind: str = "tools") -> None:
    send(f'{{"jsonrpc":"2.0","method":"notifications/{kind}/list_changed"}}')


def watch() -> None:
    path = f"{opt.base}.tools"
    last = os.stat(path).st_mtime_ns
    while True:
        time.sleep(0.02)
        now = os.stat(path).st_mtime_ns
        if now != last:
            last = now
            tell()


for line in sys.stdin.buffer:
    message = json.loads(line)
    method, ident = message.get("method"), message.get("id")
    params = message.get("params") or {}
    if method == "notifications/initialized" and opt.watch:
        threading.Thread(target=watch, daemon=True).start()
    if ident is None or method is None:
        continue
    if method == "initialize":
        told: dict[str, Any] = {
            "protocolVersion": params["protocolVersion"],
            "serverInfo": {"name": "definitions", "version": read("version") or "1"},
            "capabilities": {"tools": {"listChanged": True}},
        }
        if read("prompts") is not None:
            told["capabilities"]["prompts"] = {"listChanged": True}
        if (text := read("instructions")) is not None:
            told["instructions"] = text
        reply(ident, json.dumps(told))
    elif method == "tools/list":
        lists += 1
        tools = read("tools") or "[]"
        if opt.restless:
            each = json.loads(tools)
            tools = json.dumps([{**tool, "description": f"Look {lists}."} for tool in each])
        reply(ident, f'{{"tools":{tools}}}')
        if opt.restless:
            tell()
    elif method == "prompts/list":
        reply(ident, f'{{"prompts":{read("prompts") or "[]"}}}')
    elif method == "prompts/get":
        content = {"type": "text", "text": "prompted"}
        reply(ident, json.dumps({"messages": [{"role": "user", "content": content}]}))
    elif method == "tools/call":
        with open(f"{opt.base}.journal", "a") as journal:
            journal.write(f"{params.get('name')}\n")
        done = {"content": [{"type": "text", "text": f"{params.get('name')} ran"}]}
        reply(ident, read(f"result.{params.get('name')}") or json.dumps(done))
    elif method == "ping":
        reply(ident, "{}")
    else:
        error = {"code": -32601, "message": "Method not found"}
        send(json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}))
