#!/usr/bin/env python3
"""A server that minds what its client says of itself; the first argument says how.

``strict``: it knows no member of ``elicitation``, and no ``extensions``, as Java SDKs before 0.18.
``old``: it knows 2024-11-05 alone, and says so in words. ``named``: likewise, in ``data.supported``.
``gap``: it speaks 2026-07-28 and 2024-11-05, and nothing between. ``old-code``: 2024-11-05 alone,
refused with -32022. ``ends``: as ``strict``, and it ends after its refusal.
``asks``: it lists a tool more for clients with elicitation, or with the UI extension, and asks
those that can be asked. Its tool ``told`` says what it was told. Standard library only.
"""

from __future__ import annotations

import json
import sys
from typing import Any

UI = "io.modelcontextprotocol/ui"
OLD = "2024-11-05"
MODERN = "2026-07-28"
EMPTY_SCHEMA = {"type": "object"}


def write(**message: Any) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def refusal(how: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the error with which the handshake is refused, if it is."""
    if how in ("strict", "ends"):
        declared = params["capabilities"]
        unknown = [*declared.get("elicitation", {}), *({"extensions"} & declared.keys())]
        if unknown:
            return {"code": -32603, "message": f'Unrecognized field "{unknown[0]}"'}
    elif how in ("old", "named", "gap", "old-code") and params["protocolVersion"] != OLD:
        error: dict[str, Any] = {"code": -32602, "message": "Unsupported protocol version"}
        if how == "named":
            error["data"] = {"supported": [OLD], "requested": params["protocolVersion"]}
        if how in ("gap", "old-code"):
            error["code"] = -32022
            error["data"] = {"supported": [MODERN, OLD] if how == "gap" else [OLD]}
        return error
    return None


def tools(how: str, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tools that are listed for what the client declared."""
    names = ["told"]
    if how == "asks":
        declared = told["capabilities"]
        names += ["ask"] if "elicitation" in declared else []
        names += ["chart"] if UI in declared.get("extensions", {}) else []
    return [{"name": name, "inputSchema": EMPTY_SCHEMA} for name in names]


def main(how: str) -> None:
    """Serve until the input ends."""
    told: dict[str, Any] = {}
    for line in sys.stdin:
        message = json.loads(line)
        method, ident = message.get("method"), message.get("id")
        if method == "initialize":
            error = refusal(how, message["params"])
            if error is not None:
                write(id=ident, error=error)
                if how == "ends":
                    return
                continue
            told = message["params"]
            version = OLD if how in ("old", "named", "gap", "old-code") else "2025-06-18"
            info = {"name": "fussy", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            write(id=ident, result=result)
        elif method == "tools/list":
            write(id=ident, result={"tools": tools(how, told)})
        elif method == "tools/call":
            write(id=ident, result={"content": [{"type": "text", "text": json.dumps(told)}]})
        elif ident is not None:
            write(id=ident, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main(sys.argv[1])
