"""Requests that need input from the client (2026-07-28, basic/patterns/mrtr).

A server answers such a request with an ``input_required`` result, which has requests to the client
and a state of its own. The client makes the request again, with a response to each and the state.
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
"""What a request made again brings with it (2026-07-28, basic/patterns/mrtr)."""

_ABSENT: Final = Raw(b"null")


class InputRequired(msgspec.Struct, frozen=True):
    """What a server wants to know before it goes on (2026-07-28, basic/patterns/mrtr).

    ``requests`` has method and parameters by key; ``state`` is JSON as it came.
    """

    requests: dict[str, tuple[str, bytes | None]]
    state: bytes | None = None


def read_input_required(result: Raw | bytes) -> InputRequired:
    """Read an ``input_required`` result.

    Raises:
        ValueError: the server's fault; the text says what is wrong.
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
        if len(entries) > questions.MOST_OF_A_CALL:
            most = questions.MOST_OF_A_CALL
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
    """Write a result that asks the client for input; ``state`` is what it brings back."""
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
    """Return a request's parameters with the client's answers, and the server's state for them.

    Each is left out where there is none: nothing was asked, or no state was given.
    """
    said = []
    if responses:
        said.append(b'"inputResponses":%b' % object_from(responses))
    if state is not None:
        said.append(b'"requestState":%b' % state)
    own = without_input_responses(params) or b"{}"
    return splice.in_front(own, b",".join(said)) if said else own


def without_input_responses(params: Raw | bytes | None) -> bytes | None:
    """Return a request's parameters as they were before anybody was asked."""
    return None if params is None else splice.without(params, RETRY_KEYS)
