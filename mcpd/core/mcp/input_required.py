"""Requests that need input from the client (2026-07-28, basic/patterns/mrtr).

A server answers such a request with an ``input_required`` result, which has requests to the client
and an opaque state. The client sends its request again, with the responses and the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp import questions
from mcpd.core.mcp.modern_meta import SERVER_INFO_KEY
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_from, object_of, quote, text

RETRY_KEYS: Final = ("inputResponses", "requestState")
"""The parameters that a request has when it is sent again."""

_ABSENT: Final = Raw(b"null")


class InputRequired(msgspec.Struct, frozen=True):
    """An ``input_required`` result.

    ``requests`` has the method and parameters of each input request by its key; ``state`` is the
    server's ``requestState`` as JSON.
    """

    requests: dict[str, tuple[str, bytes | None]]
    state: bytes | None = None


def read_input_required(result: Raw | bytes) -> InputRequired:
    """Read an ``input_required`` result.

    Raises:
        ValueError: the result is malformed; the message names the problem.
    """
    members = object_of(result)
    if members is None:
        raise ValueError("the result is not an object")
    state = bytes(members.get("requestState", _ABSENT))
    if state != b"null" and text(state) is None:
        raise ValueError("requestState must be a string")
    asked = members.get("inputRequests", _ABSENT)
    requests: dict[str, tuple[str, bytes | None]] = {}
    if bytes(asked) != b"null":
        entries = object_of(asked)
        if entries is None:
            raise ValueError("inputRequests must be an object")
        if len(entries) > questions.MOST_PER_CALL:
            most = questions.MOST_PER_CALL
            raise ValueError(f"there are {len(entries)} inputRequests, and {most} may be open")
        requests = {key: _input_request(key, raw) for key, raw in entries.items()}
    if not requests and state == b"null":
        raise ValueError("there are neither inputRequests nor a requestState")
    return InputRequired(requests, None if state == b"null" else state)


def _input_request(key: str, raw: Raw) -> tuple[str, bytes | None]:
    members = object_of(raw)
    if members is None:
        raise ValueError(f"the input request {key!r} is not an object")
    method = text(members.get("method", _ABSENT))
    if method not in questions.METHODS:
        raise ValueError(f"the input request {key!r} has the unknown method {method!r}")
    params = bytes(members.get("params", _ABSENT))
    if params == b"null":
        if method != questions.ROOTS:
            raise ValueError(f"the input request {key!r} has no params")
        return method, None
    if object_of(params) is None:
        raise ValueError(f"the params of the input request {key!r} are not an object")
    return method, params


def input_required_result(
    requests: Mapping[str, tuple[str, bytes | None]], state: str, info: bytes
) -> bytes:
    """Return a result that requests input from the client, with ``state`` as its state."""
    asked = {key: _input_request_from(method, params) for key, (method, params) in requests.items()}
    said = b'"inputRequests":%b,' % object_from(asked) if asked else b""
    return b'{"resultType":"input_required",%b"requestState":%b,"_meta":{"%b":%b}}' % (
        said,
        quote(state),
        SERVER_INFO_KEY.encode(),
        info,
    )


def _input_request_from(method: str, params: bytes | None) -> bytes:
    if params is None:
        return b'{"method":%b}' % quote(method)
    return b'{"method":%b,"params":%b}' % (quote(method), params)


def retry_params(
    params: Raw | bytes | None, responses: Mapping[str, bytes], state: bytes | None
) -> bytes:
    """Return a request's parameters with the client's responses and the server's state.

    Empty ``responses`` are left out, and so is a ``state`` of ``None``.
    """
    said = []
    if responses:
        said.append(b'"inputResponses":%b' % object_from(responses))
    if state is not None:
        said.append(b'"requestState":%b' % state)
    own = without_input_responses(params) or b"{}"
    return splice.in_front(own, b",".join(said)) if said else own


def without_input_responses(params: Raw | bytes | None) -> bytes | None:
    """Return a request's parameters without the responses and the state."""
    return None if params is None else splice.without(params, RETRY_KEYS)
