"""One HTTP request and its response, over ASGI: a bounded body, JSON or an event stream."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

from msgspec import Raw

from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Share

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PIECE_BYTES: Final = 65536
"""A response is written in pieces of this size, so that other connections get their turn."""

Pairs = Iterable[tuple[bytes, bytes]]

_STREAM_HEADERS: Final = (
    (b"Content-Type", b"text/event-stream; charset=utf-8"),
    (b"Cache-Control", b"no-cache, no-transform"),
    (b"X-Accel-Buffering", b"no"),
)


class Headers:
    """The headers of a request. Names are in lower case; values are trimmed."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs: Final = [(name.lower(), value) for name, value in pairs]
        self._last: Final = dict(self._pairs)
        self._has_repeated: Final = len(self._last) < len(self._pairs)

    def get(self, name: str) -> str | None:
        """Return the value of a header, the last where it was sent several times."""
        found = self._last.get(name.encode("latin-1"))
        return None if found is None else _text(found)

    def joined(self, name: str) -> str | None:
        """Return the values of a header that is a list, separated by commas."""
        if not self._has_repeated:
            return self.get(name)
        wanted = name.encode("latin-1")
        if wanted not in self._last:
            return None
        return ", ".join(_text(value) for each, value in self._pairs if each == wanted)

    def count(self, name: str) -> int:
        """Return how many times a header was sent."""
        wanted = name.encode("latin-1")
        if not self._has_repeated:
            return int(wanted in self._last)
        return sum(each == wanted for each, _ in self._pairs)


def _text(value: bytes) -> str:
    return value.decode("latin-1").strip(" \t")


class TooLarge(Exception):
    """The body of a request is over its limit: the client's fault."""


class NoRoom(Exception):
    """There is no memory for the body of a request: it can be sent again."""


class Disconnected(Exception):
    """The client has closed the connection."""


class Exchange:
    """A request that is being answered."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: Final[str] = scope["method"]
        self.raw_path: Final[bytes] = scope["raw_path"]
        self.headers: Final = Headers(scope["headers"])
        self.connection: Final[Any] = scope.get("state", {}).get("connection")
        """The client's ``protocol.Connection``; ``None`` on another ASGI server."""
        self.extra: list[tuple[bytes, bytes]] = []
        """Headers that every response gets: those of CORS."""
        self.has_started = False
        """Whether the head of the response has been sent."""
        self._has_chunks = scope.get("http_version") != "1.0" or self.connection is None
        self._receive = receive
        self._send = send

    async def body(self, most_bytes: int, share: Share) -> bytes:
        """Return the body, which is counted in ``share`` while it arrives.

        Raises:
            TooLarge: it has more than ``most_bytes``; the rest was not read.
            NoRoom: ``share`` has no room for it; the rest was not read.
            Disconnected: the client closed the connection before its end.
        """
        length = self.headers.get("content-length")
        if length is not None and length.isdigit() and int(length) > most_bytes:
            raise TooLarge
        parts: list[bytes] = []
        size, more = 0, True
        try:
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                part = message.get("body", b"")
                if size + len(part) > most_bytes:
                    raise TooLarge
                if not share.take(len(part)):
                    raise NoRoom
                size += len(part)
                parts.append(part)
                more = message.get("more_body", False)
        finally:
            share.add(-size)
        return b"".join(parts)

    def when_lost(
        self, lost: Callable[[], None], half_closed: Callable[[], None] | None = None
    ) -> None:
        """Call back once the client has closed the connection, or only its own side of it.

        It may have done so before its request was looked at.
        """
        connection = self.connection
        if connection is None:
            return
        connection.on_lost, connection.on_half_closed = lost, half_closed
        if connection.is_lost:
            lost()
        elif connection.is_half_closed and half_closed is not None:
            half_closed()

    def abort(self) -> None:
        """Close the connection at once, whatever has been sent of the response."""
        if self.connection is not None:
            self.connection.transport.abort()

    async def reply(
        self,
        status: int,
        body: bytes | tuple[bytes | Raw, ...] = b"",
        headers: Pairs = (),
    ) -> None:
        """Send a whole response; one without a body has no ``Content-Type`` either."""
        parts = body if isinstance(body, tuple) else (body,)
        size = sum(map(len, parts))
        sent = [*headers, *self.extra]
        if status != 204:  # which has no body (RFC 9110, section 8.6)
            sent.append((b"Content-Length", b"%d" % size))
        if size:
            sent.append((b"Content-Type", b"application/json"))
        if size <= PIECE_BYTES:
            await self._reply_whole(status, b"".join(parts), sent)
            return
        await self._start(status, sent)
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(view), PIECE_BYTES):
                await self._write(bytes(view[at : at + PIECE_BYTES]))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _reply_whole(
        self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        """Send a small response, in one write where the connection can."""
        if self.connection is not None and self.connection.respond(status, body, headers):
            self.has_started = True
            return
        await self._start(status, headers)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def reply_json(self, status: int, value: Mapping[str, Any], headers: Pairs = ()) -> None:
        """Send a JSON object."""
        await self.reply(status, json.dumps(value).encode(), headers)

    async def reply_error(
        self, status: int, error: bytes, ident: bytes | None = None, headers: Pairs = ()
    ) -> None:
        """Send a JSON-RPC error; ``error`` is its member, ``ident`` the request's id as it came."""
        await self.reply(status, envelope.error(ident, error).rstrip(b"\n"), headers)

    async def start_stream(self, headers: Pairs = ()) -> None:
        """Send the head of an event stream."""
        if not self._has_chunks:
            self.connection.end_with_connection()
        await self._start(200, [*headers, *self.extra, *_STREAM_HEADERS])

    async def write(self, data: bytes) -> None:
        """Send a part of a stream, and wait until the client takes it."""
        await self._write(data)

    async def end_stream(self) -> None:
        """Send the end of a stream."""
        if not self._has_chunks:
            self.connection.end_with_connection(is_over=True)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _write(self, data: bytes) -> None:
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
