"""The body of a POST: what kind of JSON-RPC message it is, or why it is none."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import UNSET

from mcpd.core.mcp import codes
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params

CANCELLED: Final = "notifications/cancelled"

_NO_PARAMS: Final = Params()


class Invalid(Exception):
    """A body that is no JSON-RPC message; ``ident`` is its id as it came, where it has one."""

    def __init__(self, code: int, reason: str, ident: bytes | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.ident = ident

    @property
    def error(self) -> bytes:
        """Return the ``error`` member that says so."""
        return codes.plain_error(self.code, self.reason)


class Request(NamedTuple):
    """A request. ``ident`` is its id as it came; ``key`` is equal for each spelling of an id."""

    ident: bytes
    key: bytes
    method: str
    params: Params


class Notification(NamedTuple):
    """A notification."""

    method: str


class Response(NamedTuple):
    """An answer to a question of ours."""


class Batch(NamedTuple):
    """An array of messages, in their order."""

    elements: list[bytes]


Message = Request | Notification | Response | Batch


def read(body: bytes) -> Message:
    """Read the body of a POST.

    Raises:
        Invalid: the client's fault: it is no JSON (-32700), or no JSON-RPC message (-32600).
    """
    try:
        message = envelope.decode(body)
    except envelope.Malformed as problem:
        if problem.elements:
            return Batch(problem.elements)
        code = codes.INVALID_REQUEST if problem.is_json else codes.PARSE_ERROR
        raise Invalid(code, problem.reason, problem.id) from None
    has_answer = message.result is not UNSET or message.error is not UNSET
    if message.id is UNSET:
        if message.method is UNSET or message.jsonrpc != "2.0":
            raise Invalid(codes.INVALID_REQUEST, "not a JSON-RPC message")
        return Notification(str(message.method))
    ident = bytes(message.id)
    if not envelope.is_id(ident):
        raise Invalid(codes.INVALID_REQUEST, "id must be a string or an integer")
    if message.method is UNSET and has_answer:
        return Response()
    if message.method is UNSET:
        raise Invalid(codes.INVALID_REQUEST, "a request needs a method", ident)
    if message.jsonrpc != "2.0":
        raise Invalid(codes.INVALID_REQUEST, 'jsonrpc must be "2.0"', ident)
    raw = message.params
    found = None if raw is UNSET else envelope.params_of(raw)
    return Request(
        ident,
        envelope.id_key(ident),
        str(message.method),
        found or _NO_PARAMS,
    )


def keys_of(batch: Batch) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the keys of the requests of a batch, and of those that it cancels.

    Raises:
        Invalid: the client's fault: an element is no message.
    """
    keys: list[bytes] = []
    cancelled_keys: list[bytes] = []
    for element in batch.elements:
        message = read(element)
        if isinstance(message, Batch):
            raise Invalid(codes.INVALID_REQUEST, "an array within an array")
        if isinstance(message, Request):
            keys.append(message.key)
        elif isinstance(message, Notification) and message.method == CANCELLED:
            cancelled_keys += cancelled(element)
    return tuple(keys), tuple(cancelled_keys)


def cancelled(body: bytes) -> tuple[bytes, ...]:
    """Return the key of the request that a ``notifications/cancelled`` names, if it names one."""
    found = envelope.params_of(envelope.decode(body).params or b"{}")
    raw = None if found is None else found.request_id
    if not raw or not envelope.is_id(bytes(raw)):
        return ()
    return (envelope.id_key(bytes(raw)),)
