#!/usr/bin/env python3
"""An MCP server that tells the time and waits, with progress and cancellation.

A whole server in plain Python, standard library only: one JSON-RPC message a line on stdin, one a
line on stdout. A call that waits runs in a thread of its own, so that it delays nobody.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Json = dict[str, Any]

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602

TOOLS = [
    {
        "name": "now",
        "description": "Return the time, in a zone such as Europe/Lisbon or in UTC.",
        "inputSchema": {
            "type": "object",
            "properties": {"zone": {"type": "string", "default": "UTC"}},
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "wait",
        "description": "Wait some seconds, and report progress about four times a second.",
        "inputSchema": {
            "type": "object",
            "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 3600}},
            "required": ["seconds"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "pid",
        "description": "Return the process id of this server.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    },
]


class Refused(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Clock:
    """One conversation: what is asked, what waits, what was cancelled."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._waiting: dict[object, threading.Event] = {}

    def send(self, message: Json) -> None:
        """Write one message; threads take turns."""
        with self._writing:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def take(self, message: Json) -> None:
        """React to one message from the client."""
        method, params = message.get("method"), message.get("params") or {}
        if method == "notifications/cancelled":
            if stop := self._waiting.get(params.get("requestId")):
                stop.set()
        elif method == "tools/call" and params.get("name") == "wait":
            self._waiting[message["id"]] = threading.Event()
            threading.Thread(target=self.wait, args=(message["id"], params), daemon=True).start()
        elif method and "id" in message:
            try:
                self.send({"id": message["id"], "result": answer(method, params)})
            except Refused as refusal:
                error = {"code": refusal.code, "message": refusal.message}
                self.send({"id": message["id"], "error": error})

    def wait(self, ident: object, params: Json) -> None:
        """Serve a ``wait``: progress until the time is over, no answer if it is cancelled."""
        try:
            seconds = float((params.get("arguments") or {})["seconds"])
        except (KeyError, TypeError, ValueError):
            error = {"code": INVALID_PARAMS, "message": "wait needs a number of seconds"}
            self.send({"id": ident, "error": error})
        else:
            self.pass_time(ident, seconds, (params.get("_meta") or {}).get("progressToken"))
        del self._waiting[ident]

    def pass_time(self, ident: object, seconds: float, token: object) -> None:
        """Wait ``seconds`` and say so, unless a cancellation comes first."""
        steps = max(1, math.ceil(seconds * 4))
        for step in range(1, steps + 1):
            if self._waiting[ident].wait(seconds / steps):
                return
            if token is not None:
                told = {"progressToken": token, "progress": step, "total": steps}
                self.send({"method": "notifications/progress", "params": told})
        self.send({"id": ident, "result": said(f"waited {seconds:g} s")})


def answer(method: str, params: Json) -> Json:
    """Return the result of a request that takes no time; raises ``Refused``."""
    match method:
        case "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in REVISIONS else REVISIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "clock", "version": "1.0.0"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call" if params.get("name") == "now":
            return now((params.get("arguments") or {}).get("zone", "UTC"))
        case "tools/call" if params.get("name") == "pid":
            return said(str(os.getpid()))
        case "tools/call":
            raise Refused(INVALID_PARAMS, f"no such tool: {params.get('name')}")
    raise Refused(METHOD_NOT_FOUND, f"no such method: {method}")


def now(zone: str) -> Json:
    """Return the time in ``zone``; an unknown one is the tool's error, not the protocol's."""
    try:
        return said(datetime.now(ZoneInfo(zone)).isoformat(timespec="seconds"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return said(f"no such time zone here: {zone}") | {"isError": True}


def said(text: str) -> Json:
    """Return a tool's result of one text."""
    return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    """Serve until the client closes our stdin."""
    clock = Clock()
    for line in sys.stdin:
        clock.take(json.loads(line))


if __name__ == "__main__":
    main()
