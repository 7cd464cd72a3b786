"""HTTP+SSE of 2024-11-05: one stream for all that the server sends, and an address for the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from urllib.parse import urljoin

from mcpd.config.urls import public_part
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.core.wire.sse import Event
from mcpd.upstreams.http.client import Response, origin_of
from mcpd.upstreams.http.endpoint import ACCEPT_STREAM, Endpoint
from mcpd.upstreams.http.failures import Unreachable
from mcpd.upstreams.http.streams import EventReader, Unending, message_of


class OldStream:
    """The stream of one session; without it there is no session."""

    def __init__(self, endpoint: Endpoint, max_message_bytes: int) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url
        self._reader = EventReader(max_message_bytes)
        self._response: Response | None = None
        self._events: AsyncIterator[Event] | None = None

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of the event that is being read, and its bytes so far."""
        return self._reader.unfinished()

    def describe(self) -> str:
        """Return where messages are sent, and who said so."""
        return f"(at {public_part(self._endpoint.url)}, which {public_part(self._url)} named)"

    async def open(self) -> int:
        """Open the stream, and send messages to the address that it names from then on.

        Returns 0, or the HTTP status of a server that has no such stream. Raises ``Unreachable``
        where the stream ends before it has named an address, or names one of another origin.
        """
        endpoint = self._endpoint
        headers = endpoint.headers(None, accept=ACCEPT_STREAM)
        headers["Cache-Control"] = "no-store"
        response = await endpoint.send("GET", headers)
        if response.status != 200 or not response.type.is_stream:
            response.close()
            return response.status
        self._response = response
        self._events = events = self._reader.events(response)
        is_open = False
        try:
            endpoint.url = await self._named(events)
            is_open = True
        finally:
            if not is_open:
                self.close()
        return 0

    async def _named(self, events: AsyncIterator[Event]) -> str:
        """Return the address for messages, which the first event names."""
        try:
            async for event in events:
                if event.name == "endpoint" and not isinstance(event.data, Oversized):
                    return self._address(bytes(event.data).decode("utf-8", "replace"))
        except Unending as problem:
            raise Unreachable("http", "sends an event without an end") from problem
        raise Unreachable("http", "ended its event stream before it named an address for messages")

    def close(self) -> None:
        """Close the stream."""
        if self._response is not None:
            self._response.close()

    async def read(self, deliver: Callable[[Frame | Oversized], None]) -> str:
        """Deliver all messages; return why the stream has ended."""
        events = self._events
        if events is None:
            return "has no event stream"
        try:
            async for event in events:
                message = message_of(event)
                if message is not None:
                    deliver(message)
        except Unreachable as problem:
            return problem.message
        except Unending:
            return "sends an event without an end"
        finally:
            self.close()
        return "ended its event stream"

    def _address(self, said: str) -> str:
        address = urljoin(self._endpoint.url, said.strip())
        try:
            is_same = origin_of(address) == origin_of(self._endpoint.url)
        except ValueError:
            is_same = False
        if not is_same:
            ours, theirs = public_part(self._endpoint.url), public_part(address)
            why = f"{ours} wants messages sent to another origin, which is not done: {theirs}"
            raise Unreachable("redirect", why, may_pass=False)
        return address
