"""A server that tells its secrets wherever it can, in every form: for tests of what is masked.

Its secrets are the variables ``SENTINEL_…``, or else its second argument. ``serve`` answers a handshake, ``refuse`` refuses it and
``die`` ends before. The tool ``die`` ends it in the middle of a call.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.secret_forms import forms

SECRETS = [value for name, value in sorted(os.environ.items()) if name.startswith("SENTINEL_")]
SECRETS = SECRETS or [sys.argv[2]]


def write(fd: int, *lines: str) -> None:
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    while data:
        data = data[os.write(fd, data) :]


def say(**message: Any) -> None:
    write(1, json.dumps({"jsonrpc": "2.0", **message}))


def shout(fd: int) -> None:
    """Write everything, and something at every place where a line may be cut."""
    for secret in SECRETS:
        write(fd, f"plain: {secret}", *(f"<{form}>" for form in forms(secret)))
    write(fd, "all: " + "".join(SECRETS), "twice: " + "".join(SECRETS * 2))
    secret = SECRETS[0]
    for length in (2000, 8 * 1024, 64 * 1024) if fd == 2 else (2000,):
        for back in range(len(secret) + 1):
            write(fd, "x" * (length - back) + secret + "y" * 20)
        write(fd, (secret + " ") * (2 * length // len(secret)))
    for number, byte in enumerate(secret):  # without a newline, a byte at a time
        os.write(fd, byte.encode() if number else f"slow: {byte}".encode())
    os.write(fd, b"\n")


def main(mode: str) -> None:
    if mode == "serve":
        shout(2)
    told = " ".join(SECRETS)
    if mode == "die":
        write(2, f"Error: cannot log in with {told}", *(json.dumps(each) for each in SECRETS))
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        ident, method = message.get("id"), message.get("method")
        if ident is None:
            continue
        if method == "initialize" and mode == "serve":
            shout(1)
            capabilities: Any = {"tools": {}, "resources": {}, "logging": {}}
            info = {"name": "leaky", "version": "1", "title": told}
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
            say(id=ident, result={**result, "serverInfo": info, "instructions": told})
        elif method == "initialize":
            say(id=ident, error={"code": -32000, "message": "x" * 460 + told, "data": SECRETS})
        elif method == "tools/list":
            schema = {"type": "object", "description": json.dumps(SECRETS)}
            tool = {"name": "die", "description": told, "inputSchema": schema}
            odd = {"name": "odd", "inputSchema": {**schema, "$ref": "http://h/" + SECRETS[0] * 9}}
            say(id=ident, result={"tools": [tool, tool, odd]})
        elif method == "resources/list":
            say(id=ident, error={"code": -32000, "message": "x" * 260 + told})
        elif method == "tools/call":
            for _ in range(2):
                say(method="notifications/message", params={"level": "error", "data": told})
            write(2, f"dying of {told}", "z" * 8190 + told, "z" * 65530 + told)
            os._exit(3)
        else:
            say(id=ident, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main(sys.argv[-1])
