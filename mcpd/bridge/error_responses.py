"""What the bridge itself answers requests with."""

from __future__ import annotations

import json

Error = dict[str, object]
"""The ``error`` member of an answer."""

MAX_REQUEST_BYTES = 1 << 26
"""A frame of the client over this is not kept; the daemon's own limit for requests is far below."""

OUTCOME_UNKNOWN: Error = {
    "code": -32603,
    "message": "the daemon went away before it answered; the request may have been carried out",
    "data": {
        "kind": "outcome_unknown",
        "retryable": False,
        "hint": "look before you repeat it; the session goes on with the next daemon",
    },
}
NOT_READ: Error = {
    "code": -32603,
    "message": "the daemon ended before it read this; it is too large to be kept for the next one",
    "data": {"kind": "draining", "retryable": True, "hint": "repeat it"},
}
TOO_LARGE: Error = {
    "code": -32603,
    "message": f"the message is over {MAX_REQUEST_BYTES} bytes",
    "data": {"kind": "message_too_large", "retryable": False, "limit": "max_request_bytes"},
}
NOT_ASKED: Error = {
    "code": -32603,
    "message": "the client was not asked: it may still answer an older question of this id",
}


def no_daemon(hint: str) -> Error:
    """Return the error for a request that no daemon gets."""
    data = {"kind": "no_daemon", "retryable": True, "hint": hint}
    return {"code": -32603, "message": "no daemon runs", "data": data}


def failure(ident: bytes, error: Error) -> bytes:
    """Return the frame that answers a request with an error."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (ident, json.dumps(error).encode())
