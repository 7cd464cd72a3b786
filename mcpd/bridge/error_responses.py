"""The error responses that the bridge itself sends."""

from __future__ import annotations

import json

Error = dict[str, object]
"""The ``error`` member of a response."""

MAX_REQUEST_BYTES = 1 << 26
"""The largest frame of the client that is kept. The daemon's limit for requests is far below."""

OUTCOME_UNKNOWN: Error = {
    "code": -32603,
    "message": "the daemon went away before it answered; the request may have been carried out",
    "data": {
        "kind": "outcome_unknown",
        "retryable": False,
        "hint": "check before you repeat it; the session continues with the next daemon",
    },
}
NOT_READ: Error = {
    "code": -32603,
    "message": "the daemon ended before it read this request, which is too large to be kept",
    "data": {"kind": "draining", "retryable": True, "hint": "repeat it"},
}
TOO_LARGE: Error = {
    "code": -32603,
    "message": f"the message is over {MAX_REQUEST_BYTES} bytes",
    "data": {"kind": "message_too_large", "retryable": False, "limit": "max_request_bytes"},
}
NOT_ASKED: Error = {
    "code": -32603,
    "message": "the client was not asked: it may still answer an older request with this id",
}


def no_daemon(hint: str) -> Error:
    """Return the error for a request that no daemon receives."""
    data = {"kind": "no_daemon", "retryable": True, "hint": hint}
    return {"code": -32603, "message": "no daemon runs", "data": data}


def failure(ident: bytes, error: Error) -> bytes:
    """Return the frame of an error response."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (ident, json.dumps(error).encode())
