"""A server that runs what it is told to, for tests of hostile servers: standard library only.

``--setup CODE`` runs at the start; the tool ``run`` runs the ``code`` of its arguments. Both see
``out`` (writes bytes to stdout), ``err`` (to stderr), ``answers`` (result bytes by method; a
function there is called with the message and returns them), ``ident`` and ``token`` of the call, and
``stdin``. A call whose code does not set ``silent`` is answered when it has run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from typing import Any

INITIALIZE = {
    "capabilities": {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
    },
    "serverInfo": {"name": "puppet", "version": "1"},
}
TOOLS = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("run", "hang")]}


WRITES = threading.Lock()


def out(data: bytes) -> None:
    """Write all of ``data`` to stdout, and nothing of another thread between."""
    view = memoryview(data)
    with WRITES:
        while view:
            view = view[os.write(1, view[: 1 << 20]) :]


def err(data: bytes) -> None:
    """Write all of ``data`` to stderr."""
    view = memoryview(data)
    while view:
        view = view[os.write(2, view[: 1 << 20]) :]


def text(said: str) -> bytes:
    """Return a tool's result of one text."""
    return json.dumps({"content": [{"type": "text", "text": said}]}).encode()


def main() -> None:
    """Serve until end of file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--setup", default="")
    options = parser.parse_args()
    os.nice(19)  # what is measured is the daemon, not who gets a processor
    answers: dict[str, Any] = {
        "tools/list": json.dumps(TOOLS).encode(),
        "resources/list": b'{"resources":[{"uri":"puppet://a","name":"a"}]}',
        "resources/templates/list": b'{"resourceTemplates":[]}',
        "prompts/list": b'{"prompts":[]}',
        "completion/complete": b'{"completion":{"values":[]}}',
    }
    scope: dict[str, Any] = {"out": out, "err": err, "answers": answers, "stdin": sys.stdin.buffer}
    exec(options.setup, scope)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        ident, params = message.get("id"), message.get("params") or {}
        method = message.get("method", "")
        if ident is None or not method:
            continue
        if method in answers:
            result = answers[method]
            result = result(message) if callable(result) else result
        elif method == "initialize":
            version = {"protocolVersion": params["protocolVersion"]}
            result = json.dumps(INITIALIZE | version).encode()
        elif method == "tools/call" and params["name"] == "run":
            token = json.dumps((params.get("_meta") or {}).get("progressToken")).encode()
            scope.update(ident=ident, token=token, silent=False)
            exec(params["arguments"]["code"], scope)
            result = None if scope["silent"] else text("done")
        elif method == "tools/call":
            result = None
        else:
            result = b"{}"
        if result is not None:
            out(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (ident, result))


if __name__ == "__main__":
    main()
