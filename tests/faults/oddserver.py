"""A server whose answers are scripted byte for byte: standard library only, no thread.

Its one tool, ``say``, writes the ``parts`` of its arguments to stdout, each by a write of its own:
``[text, times]``, with ``$ID`` standing for the id of the request and ``$PREVIOUS`` for that of the
one before; ``times`` under zero repeats a character until the line holds so many bytes. Nothing else
answers the call, so the parts have to, unless ``answer`` is true: then a line end and an ordinary
result follow.
``$DEEP`` is an array in an array, as often as ``deep`` says. ``encoding`` says how text becomes
bytes. ``--tools FILE`` is the array of ``tools/list``, as it is to be served; with ``--pages`` an
array of whole results, in the order in which they are served.
``--instead TEXT`` is all that it answers to a handshake, backslash escapes read.
``--ping LINE`` is written to whoever pings it; without it nothing is. ``--version`` is its revision,
else it takes the one that it is offered.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

Json = dict[str, Any]


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def answer(ident: Any, result: bytes) -> None:
    write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (ident, result))


def text(said: str) -> bytes:
    return json.dumps({"content": [{"type": "text", "text": said}]}).encode()


def say(ident: int, previous: int, arguments: Json) -> None:
    """Write what the caller wants to be written."""
    encoding = arguments.get("encoding", "utf-8")
    deep = arguments.get("deep", 0)
    nested = "[" * deep + "]" * deep if isinstance(deep, int) else ""
    line = 0
    for part, times in arguments["parts"]:
        piece = part.replace("$ID", str(ident)).replace("$PREVIOUS", str(previous)).encode(encoding)
        piece = piece.replace(b"$DEEP", nested.encode())
        data = piece * (times if times >= 0 else -times - line)
        line = len(data) - data.rfind(b"\n") - 1 + (0 if b"\n" in data else line)
        write(data)
    if arguments.get("answer"):
        write(b"\n")
        answer(ident, text("said"))


def main() -> None:
    """Serve until end of file."""
    ap = argparse.ArgumentParser()
    ap.add_argument("--tools")
    ap.add_argument("--pages")
    ap.add_argument("--ping")
    ap.add_argument("--instead")
    ap.add_argument("--version")
    options = ap.parse_args()
    tools = b'[{"name":"say","inputSchema":{"type":"object"}}]'
    if options.tools:
        with open(options.tools, "rb") as file:
            tools = file.read()
    pages: list[Any] = []
    if options.pages:
        with open(options.pages, "rb") as file:
            pages = json.load(file)
    listed = previous = 0
    for line in sys.stdin.buffer:
        message = json.loads(line)
        ident, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case _ if ident is None:
                pass
            case _ if options.instead is not None:
                write(options.instead.encode().decode("unicode_escape").encode())
            case "initialize":
                told = {
                    "protocolVersion": options.version or params["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "odd", "version": "1"},
                }
                answer(ident, json.dumps(told).encode())
            case "ping" if options.ping:
                write(options.ping.replace("$ID", str(ident)).encode() + b"\n")
            case "tools/list" if pages:
                page = pages[min(listed, len(pages) - 1)]
                listed += 1
                if "error" in page:
                    write(json.dumps({"jsonrpc": "2.0", "id": ident, **page}).encode() + b"\n")
                else:
                    answer(ident, json.dumps(page).encode())
            case "tools/list":
                answer(ident, b'{"tools":%b}' % tools)
            case "tools/call" if params["name"] == "say":
                say(ident, previous, params["arguments"])
                previous = ident
            case "tools/call":
                answer(ident, text(params["name"]))


if __name__ == "__main__":
    main()
