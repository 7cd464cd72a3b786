#!/usr/bin/env python3
"""A server of either era whose lists are longer at every look, and which need not say so.

``--sleep S`` is a cold start. ``--declares`` has it declare ``listChanged``, which it never sends.
``--modern`` is revision 2026-07-28, with ``--ttl MS``. ``--gates`` has it list, always, one entry
for each capability and extension that the request for the list declares, and one more where that
is ``sampling`` and the file ``--more`` exists. While the file ``--hangs`` exists no list
request is answered; while ``--fails`` exists each gets an error.
``--journal FILE`` gets the method of every request. ``--asks-roots`` has it ask for roots when it
is initialized, after ``--asks-after S``, and refuse every call until it is told some.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import threading
import time
from typing import Any

MODERN = "2026-07-28"
INFO = {"name": "lists", "version": "1"}
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
    },
}
KEYS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}

parser = argparse.ArgumentParser()
parser.add_argument("--sleep", type=float, default=0.0)
parser.add_argument("--declares", action="store_true")
parser.add_argument("--modern", action="store_true")
parser.add_argument("--ttl", type=int, default=0)
parser.add_argument("--gates", action="store_true")
parser.add_argument("--more", default="")
parser.add_argument("--hangs", default="")
parser.add_argument("--fails", default="")
parser.add_argument("--journal", default="")
parser.add_argument("--asks-roots", action="store_true")
parser.add_argument("--asks-after", type=float, default=0.0)
opt = parser.parse_args()

looks = dict.fromkeys(KEYS, 0)
roots: list[str] = []
"""What the client last said."""


def send(**message: Any) -> None:
    """Write one message."""
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    sys.stdout.buffer.write(line.encode())
    sys.stdout.buffer.flush()


def gated(params: dict[str, Any]) -> list[str]:
    """Return what a request declares."""
    declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    extensions = declared.pop("extensions", {})
    names = sorted(re.sub(r"\W", "_", name) for name in [*declared, *extensions])
    more = ["words"] if "sampling" in declared and os.path.exists(opt.more) else []
    return ["plain", *names, *more]


def entries(method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a list with one entry more than at the last look."""
    if opt.gates:
        names = gated(params)
        schema = {"inputSchema": {"type": "object"}}
        match method:
            case "tools/list":
                return [{"name": name, **schema} for name in names]
            case "prompts/list":
                return [{"name": name} for name in names]
            case "resources/list":
                return [{"uri": f"r://{name}", "name": name} for name in names]
        return [{"uriTemplate": f"{name}://{{id}}", "name": name} for name in names]
    looks[method] += 1
    numbers = range(looks[method])
    match method:
        case "tools/list":
            echo = {"name": "echo", "inputSchema": SCHEMA}
            more = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in numbers]
            return [echo, *more]
        case "prompts/list":
            return [{"name": f"p{n}"} for n in numbers]
        case "resources/list":
            return [{"uri": f"r://{n}", "name": f"r{n}"} for n in numbers]
    return [{"uriTemplate": f"x{n}://{{id}}", "name": f"x{n}"} for n in numbers]


def capabilities() -> dict[str, Any]:
    """Return what the server declares."""
    said: dict[str, Any] = {"listChanged": True} if opt.declares else {}
    return {"tools": said, "prompts": said, "resources": said}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request, ``None`` where there is no such method."""
    if method in KEYS:
        stamps = {"ttlMs": opt.ttl, "cacheScope": "private"} if opt.modern else {}
        return {KEYS[method]: entries(method, params), **stamps}
    if method == "initialize" and not opt.modern:
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": capabilities(), "serverInfo": INFO}
    if method == "server/discover" and opt.modern:
        stamps = {"ttlMs": 0, "cacheScope": "private"}
        return {"supportedVersions": [MODERN], "capabilities": capabilities(), **stamps}
    if method == "tools/call":
        if opt.asks_roots and not roots:
            return {"content": [{"type": "text", "text": "Access denied"}], "isError": True}
        said = [params["name"], params.get("arguments"), roots]
        return {"content": [{"type": "text", "text": json.dumps(said)}]}
    if method == "prompts/get":
        return {"messages": []}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": params["uri"]}]}
    return None


def ask_roots() -> None:
    """Ask the client which roots there are."""
    time.sleep(opt.asks_after)
    send(id="roots", method="roots/list")


def main() -> None:
    """Serve until the end of input."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, ident = message.get("method"), message.get("id")
        if opt.journal:
            with open(opt.journal, "a") as journal:
                journal.write(f"{method}\n")
        if method == "notifications/initialized" and opt.asks_roots:
            threading.Thread(target=ask_roots, daemon=True).start()
        if method is None and ident == "roots":
            roots[:] = [root["uri"] for root in message.get("result", {}).get("roots", [])]
        if method is None or ident is None:
            continue
        if method in KEYS and opt.hangs and os.path.exists(opt.hangs):
            continue
        if method in KEYS and opt.fails and os.path.exists(opt.fails):
            send(id=ident, error={"code": -32000, "message": "not now"})
            continue
        result = answer(method, message.get("params") or {})
        if method == "subscriptions/listen":
            about = {"io.modelcontextprotocol/subscriptionId": ident}
            wanted = message["params"]["notifications"]
            acknowledged = {"notifications": wanted, "_meta": about}
            send(method="notifications/subscriptions/acknowledged", params=acknowledged)
        elif result is None:
            data = {"supported": [MODERN]} if opt.modern else {}
            code = -32022 if opt.modern and method == "initialize" else -32601
            send(id=ident, error={"code": code, "message": "Method not found", "data": data})
        else:
            if opt.modern:
                about = {"io.modelcontextprotocol/serverInfo": INFO}
                result = {"resultType": "complete", "_meta": about, **result}
            send(id=ident, result=result)


if __name__ == "__main__":
    time.sleep(opt.sleep)
    main()
