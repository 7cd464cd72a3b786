"""JSON-RPC error codes, the code of each of our error kinds, and the error objects that we send."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpd.core.facts import Failure

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""Legacy revisions only."""
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

_CODES: Final = {
    "invalid_arguments": INVALID_PARAMS,
    "tool_not_found": INVALID_PARAMS,
    "server_not_found": INVALID_PARAMS,
    "invalid_params": INVALID_PARAMS,
    "invalid_message": INVALID_REQUEST,
    "unknown_method": METHOD_NOT_FOUND,
}

MOST_CHARACTERS: Final = 2000
"""Longest error message: it may quote a name, and a peer may send a name of megabytes."""


def code_of(kind: str) -> int:
    """Return the JSON-RPC code of an error kind."""
    return _CODES.get(kind, INTERNAL_ERROR)


def error_object(failure: Failure, code: int | None = None) -> bytes:
    """Return the ``error`` member for a failure of ours, with its kind in ``data``."""
    data: dict[str, Any] = {"kind": failure.kind, "retryable": failure.is_retryable}
    if failure.server is not None:
        data["server"] = _cut(failure.server)
    if failure.hint is not None:
        data["hint"] = failure.hint
    data.update(failure.details)
    body = {
        "code": code_of(failure.kind) if code is None else code,
        "message": _cut(failure.message),
        "data": data,
    }
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # a lone surrogate in a name that we quote
        return msgspec.json.encode(_printable(body))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} […]"


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(member) for member in value]
    return value


def plain_error(code: int, message: str, data: Any = None) -> bytes:
    """Return the ``error`` member for an error that MCP or JSON-RPC defines."""
    body: dict[str, Any] = {"code": code, "message": _cut(message)}
    if data is not None:
        body["data"] = data
    return msgspec.json.encode(_printable(body))
