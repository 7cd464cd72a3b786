"""Event streams of a server: the answer to a request, and the one of unasked messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from mcpd.core.wire.framing import Frame, Oversized
from mcpd.core.wire.sse import Event, SseParser
from mcpd.upstreams.http import bodies
from mcpd.upstreams.http.authorizer import CannotAuthorize
from mcpd.upstreams.http.client import Response
from mcpd.upstreams.http.endpoint import ACCEPT_STREAM, Endpoint
from mcpd.upstreams.http.failures import Unreachable

RETRY_S: Final = 1.0
"""Seconds before a stream is opened again, where it does not say."""

RETRY_LEAST_S: Final = 0.05
RETRY_MOST_S: Final = 60.0

SETTLED_S: Final = 30.0
"""How long a stream lasts whose next loss is not held against it."""

SKIPPED_TIMES: Final = 4
"""How many times as long as ``max_message_bytes`` an event may be before its stream is closed: what
is beyond the limit is skipped, so that those after it can be read."""


class Unending(Exception):
    """An event is so long that its end is not waited for; holds the bytes so far."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__("an event without an end")
        self.size_bytes = size_bytes


class EventReader:
    """Reads event streams that continue each other: a response, and what resumes it."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_bytes = max_message_bytes
        self.last_id = ""
        self.retry_s: float | None = None
        self._parser = SseParser(max_message_bytes)

    async def events(self, response: Response) -> AsyncIterator[Event]:
        """Yield the events of a response.

        Raises ``Unreachable`` where it breaks off, and ``Unending``.
        """
        parser = self._parser = SseParser(self._max_bytes)
        async for piece in response.pieces():
            events = parser.feed(piece)
            self._note(parser)
            for event in events:
                yield event
            unfinished = parser.unfinished()[1]
            if unfinished > SKIPPED_TIMES * self._max_bytes:
                raise Unending(unfinished)
        for event in parser.end():
            if not isinstance(event.data, Oversized) and bodies.is_whole(event.data):
                self._note(parser)
                yield event

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of the event that is being read, and its bytes so far."""
        return self._parser.unfinished()

    def _note(self, parser: SseParser) -> None:
        self.last_id = parser.last_id or self.last_id
        if parser.retry_ms is not None:
            self.retry_s = min(max(parser.retry_ms / 1000, RETRY_LEAST_S), RETRY_MOST_S)

    async def open(self, endpoint: Endpoint) -> Response:
        """Ask for a stream, from where the last one has ended; return the response."""
        headers = endpoint.headers(None, accept=ACCEPT_STREAM)
        headers["Cache-Control"] = "no-store"
        if self.last_id:
            headers["Last-Event-ID"] = self.last_id
        return await endpoint.send("GET", headers)


def message_of(event: Event) -> Frame | Oversized | None:
    """Return the message in an event, ``None`` for an event of another kind."""
    if event.name != "message":
        return None
    return event.data if isinstance(event.data, Oversized) else bodies.one_line(event.data)


class UnaskedStream:
    """The stream that a GET opens: opened again for ever, unless the server has none."""

    def __init__(self, endpoint: Endpoint, max_message_bytes: int) -> None:
        self.was_open = False
        """Whether the server has opened it at least once."""
        self._endpoint = endpoint
        self._reader = EventReader(max_message_bytes)

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of the event that is being read, and its bytes so far."""
        return self._reader.unfinished()

    async def messages(self) -> AsyncIterator[Frame | Oversized]:
        """Yield what the server sends without being asked. Ends where it has no such stream."""
        loop, wait = asyncio.get_running_loop(), 0.0
        while True:
            begun, has_brought, is_refused = loop.time(), False, False
            try:
                response = await self._reader.open(self._endpoint)
            except CannotAuthorize:
                return  # the next request will say so
            except Unreachable:
                pass
            else:
                try:
                    if response.status < 500 and response.status != 429:
                        if response.status == 200 and response.type.is_stream:
                            self.was_open = True
                            async for event in self._reader.events(response):
                                message = message_of(event)
                                if message is not None:
                                    has_brought = True
                                    yield message
                        elif self._reader.last_id:
                            self._reader.last_id = ""  # it may be what is refused
                        else:
                            return
                    else:
                        is_refused = True
                except (Unreachable, Unending):
                    pass
                finally:
                    response.close()
            least = self._reader.retry_s or RETRY_S
            if has_brought or loop.time() - begun >= SETTLED_S:
                wait = 0.0
            wait = min(max(least, 2 * wait), RETRY_MOST_S)
            await asyncio.sleep(RETRY_MOST_S if is_refused else wait)
