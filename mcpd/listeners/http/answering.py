"""Sending what comes for one request: as JSON where its response comes first, else as a stream."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from msgspec import UNSET

from mcpd.core.wire import envelope
from mcpd.listeners.http.exchange import Exchange, Pairs
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.requests.guards import Accepted
from mcpd.listeners.http.streams import Event, Outbox, Queued, retry

_ERROR_BYTES: Final = 65536
"""The longest response that is looked into for the code of an error."""

_CODE: Final = re.compile(rb"-?[0-9]{1,9}\Z")

_SECONDS: Final = re.compile(rb"[0-9]{1,6}(\.[0-9]{1,6})?\Z")

StatusOf = Callable[[int], int]
"""Returns the HTTP status of a response with this JSON-RPC error."""


def always_ok(_code: int) -> int:
    """Return the status of errors on a session: the SDKs' clients read the body of a 200 alone."""
    return 200


class Manner(NamedTuple):
    """How a request is answered. Times are in seconds."""

    accepted: Accepted
    json_wait: float
    status_of: StatusOf = always_ok
    headers: Pairs = ()
    prime: Callable[[], bytes] | None = None
    """Returns the event that a stream begins with."""

    unanswered: Callable[[], Awaitable[None]] | None = None
    """Replies where there is no response; ``None`` does so with 202."""

    lifetime: float = 0.0
    """How long a stream is open at most; its client comes back for the rest. 0: no limit."""


async def answer(exchange: Exchange, outbox: Outbox, manner: Manner, keepalive: Keepalive) -> bool:
    """Send everything up to the end of an outbox; return whether it was sent as JSON.

    A response that comes before anything else, within ``json_wait``, is sent as JSON. A client that
    takes no stream is sent its response alone.
    """
    if not manner.accepted.json:
        await _stream(exchange, outbox, manner, keepalive, None)
        return False
    first = await _first(outbox, manner)
    if isinstance(first, Event) and first.is_response:
        await _json(exchange, first, manner)
        return True
    if first is None and outbox.is_finished:
        if manner.unanswered is None:
            await exchange.reply(202, headers=manner.headers)
        else:
            await manner.unanswered()
        return True
    await _stream(exchange, outbox, manner, keepalive, first)
    return False


async def _first(outbox: Outbox, manner: Manner) -> Queued | None:
    """Return what comes first, ``None`` where nothing came in time."""
    if not manner.accepted.stream:
        while True:
            queued = await outbox.get()
            if queued is None or (isinstance(queued, Event) and queued.is_response):
                return queued
    return await outbox.get(manner.json_wait)


async def _json(exchange: Exchange, event: Event, manner: Manner) -> None:
    status, headers = 200, manner.headers
    error = _error(event.line) if isinstance(event.line, bytes) else None
    if error is not None:
        status = manner.status_of(error.code)
        if error.is_over_a_rate and manner.status_of is not always_ok:
            status = 429
            headers = (*headers, (b"Retry-After", b"%d" % math.ceil(error.retry_after_s)))
    await exchange.reply(status, event.line, headers)


async def _stream(
    exchange: Exchange,
    outbox: Outbox,
    manner: Manner,
    keepalive: Keepalive,
    first: Queued | None,
) -> None:
    await exchange.start_stream(manner.headers)
    if manner.prime is not None:
        await exchange.write(manner.prime())
    with keepalive.watching(outbox), _closing(outbox, manner.lifetime):
        queued = first or await outbox.get()
        while queued is not None:
            keepalive.written(outbox)
            for piece in (queued,) if isinstance(queued, bytes) else queued.written():
                await exchange.write(piece)
            queued = await outbox.get()
    await exchange.end_stream()


@contextlib.contextmanager
def _closing(outbox: Outbox, lifetime: float) -> Iterator[None]:
    """Close a connection, saying when to come back, if the block takes longer than ``lifetime``."""
    if lifetime <= 0:
        yield
        return
    timer = asyncio.get_running_loop().call_later(lifetime, outbox.close, retry())
    try:
        yield
    finally:
        timer.cancel()


class _Error(NamedTuple):
    """What the status of an error response depends on."""

    code: int
    is_over_a_rate: bool
    retry_after_s: float


def _error(line: bytes) -> _Error | None:
    """Return the error of a response, ``None`` of any other, and where it cannot be told."""
    if len(line) > _ERROR_BYTES or b'"error"' not in line:
        return None
    try:
        message = envelope.decode(line)
    except envelope.Malformed:
        return None
    error = {} if message.error is UNSET else envelope.object_of(message.error) or {}
    code = bytes(error.get("code", b""))
    if not _CODE.match(code):
        return None
    data = envelope.object_of(error.get("data", b"{}")) or {}
    after = bytes(data.get("retry_after_s", b""))
    is_over = bytes(data.get("kind", b"")) == b'"rate_limited"'
    return _Error(int(code), is_over, float(after) if _SECONDS.match(after) else 1.0)
