"""The least MCP server: one loop, the standard library, so that what stands before it shows."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

TOOLS = [
    {
        "name": "echo",
        "description": "Return the text.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "blob",
        "description": "Return a text of so many bytes.",
        "inputSchema": {"type": "object", "properties": {"bytes": {"type": "integer"}}},
        "annotations": {"readOnlyHint": True},
    },
]


def answer(method: str, params: Json) -> Json | None:
    """Return the result of a request, ``None`` if there is no such method."""
    match method:
        case "tools/call":
            args = params["arguments"]
            text = args["text"] if params["name"] == "echo" else "x" * args["bytes"]
            return {"content": [{"type": "text", "text": text}]}
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "ping":
            return {}
    return None


def main() -> None:
    """Answer line by line until the end of the input."""
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message["method"], message.get("params") or {})
        if result is None:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            reply["result"] = result
        out.write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
