#!/usr/bin/env python3
"""An MCP server that keeps notes in memory: tools to add, list and search, each note a resource.

A whole server in plain Python, standard library only: one JSON-RPC message a line on stdin, one a
line on stdout. It answers one request after the other, which is enough for notes. Whoever shares
the process shares the notes: that is the point of the example.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND = -32601, -32602, -32002

TOOLS = [
    {
        "name": "add",
        "description": "Keep a note and return its number.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 1}},
            "required": ["text"],
        },
    },
    {
        "name": "list",
        "description": "Return all notes, the oldest first.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "search",
        "description": "Return the notes that contain a text, in any case.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
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


class Notes:
    """The notes of one process, and what MCP may ask about them."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def answer(self, method: str, params: Json) -> Json:
        """Return the result of a request; raises ``Refused``."""
        match method:
            case "initialize":
                return initialize(params)
            case "ping":
                return {}
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                return self.call(params.get("name", ""), params.get("arguments") or {})
            case "resources/list":
                return {"resources": list(self.resources())}
            case "resources/read":
                return self.read(params.get("uri", ""))
        raise Refused(METHOD_NOT_FOUND, f"no such method: {method}")

    def call(self, tool: str, arguments: Json) -> Json:
        """Run a tool."""
        match tool:
            case "add":
                self.texts.append(str(arguments["text"]))
                return said(f"note {len(self.texts)}")
            case "list":
                return said(self.lines(""))
            case "search":
                return said(self.lines(str(arguments["text"])))
            case "pid":
                return said(str(os.getpid()))
        raise Refused(INVALID_PARAMS, f"no such tool: {tool}")

    def lines(self, wanted: str) -> str:
        """Return the notes that contain ``wanted``, numbered, one a line."""
        found = [
            f"{number}. {text}"
            for number, text in enumerate(self.texts, 1)
            if wanted.casefold() in text.casefold()
        ]
        return "\n".join(found) or "no notes"

    def resources(self) -> Iterator[Json]:
        """Each note as a resource."""
        for number, text in enumerate(self.texts, 1):
            yield {"uri": f"note://{number}", "name": text[:40], "mimeType": "text/plain"}

    def read(self, uri: str) -> Json:
        """Return one note's text."""
        number = uri.removeprefix("note://")
        if not number.isdecimal() or not 1 <= int(number) <= len(self.texts):
            raise Refused(RESOURCE_NOT_FOUND, f"no such note: {uri}")
        text = self.texts[int(number) - 1]
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def initialize(params: Json) -> Json:
    """Agree on a revision: the client's if we know it, else our newest."""
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in REVISIONS else REVISIONS[0],
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "notes", "version": "1.0.0"},
        "instructions": "Notes live as long as the process. Search before you add.",
    }


def said(text: str) -> Json:
    """Return a tool's result of one text."""
    return {"content": [{"type": "text", "text": text}]}


def respond(notes: Notes, message: Json) -> Json:
    """Return the answer to one request."""
    answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        return answer | {"result": notes.answer(message["method"], message.get("params") or {})}
    except Refused as refusal:
        return answer | {"error": {"code": refusal.code, "message": refusal.message}}
    except KeyError as missing:
        return answer | {"error": {"code": INVALID_PARAMS, "message": f"{missing} is missing"}}


def main() -> None:
    """Serve until the client closes our stdin."""
    notes = Notes()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:  # neither notifications nor answers
            print(json.dumps(respond(notes, message)), flush=True)


if __name__ == "__main__":
    main()
