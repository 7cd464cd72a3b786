"""Frames to and from one server that is reached by URL: a POST for each of ours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol

from mcpd import tasks
from mcpd.core.facts import Failure
from mcpd.core.mcp.routing import Routing
from mcpd.core.mcp.versions import Era, era_of
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.core.wire.memory import Memory, Share
from mcpd.upstreams.http.authorizer import CannotAuthorize
from mcpd.upstreams.http.bodies import response_id
from mcpd.upstreams.http.endpoint import PING, PING_ID, Endpoint
from mcpd.upstreams.http.exchange import Exchange
from mcpd.upstreams.http.failures import Unreachable, connect_failed
from mcpd.upstreams.http.oldsse import OldStream
from mcpd.upstreams.http.streams import UnaskedStream
from mcpd.upstreams.run import Frames

CANCELLED_S: Final = 2.0
"""For a legacy server to read a cancellation, before its stream of the request is closed."""


class Listener(Protocol):
    """What the channel reports to its run."""

    def failed(self, wire_id: int, failure: Failure, *, may_repeat: bool) -> None:
        """A request will get no answer; harmless where it has one."""

    def forgotten(self, wire_id: int) -> None:
        """The server does not know the session any more, and has not served this request."""

    def lost(self, wire_id: int, failure: Failure) -> None:
        """The server cannot be used, and has not read this request."""


class RemoteChannel:
    """The channel to one server.

    Invariant: what is written is sent at once or waits within ``max_unsent_bytes``; nothing waits
    for the answer to anything else, but for the end of the handshake.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        listener: Listener,
        *,
        frames: Frames,
        memory: Memory,
        max_message_bytes: int,
        max_unsent_bytes: int,
        falls_back: bool,
        ping_interval: float,
    ) -> None:
        """``falls_back``: HTTP+SSE is tried where the server refuses ``initialize``."""
        self.endpoint = endpoint
        self.max_message_bytes = max_message_bytes
        self.is_open = True
        self.is_held = False
        """Whether what is written waits for the next run."""
        self.held: dict[int, None] = {}
        """Requests that wait for the next run."""
        self.old: OldStream | None = None
        """The stream of HTTP+SSE, where that is what the server has."""
        self._listener = listener
        self._frames = frames
        self._max_unsent = max_unsent_bytes
        self._unsent = Share(memory)
        self._falls_back = falls_back
        self._group = tasks.Group()
        self._exchanges: dict[Exchange, asyncio.Task[None]] = {}
        self._by_id: dict[int, Exchange] = {}
        self._opening: asyncio.Event | None = None
        self._is_introduced = False
        self._unasked: UnaskedStream | None = None
        self._ping_interval = ping_interval
        self._ping_timer: asyncio.TimerHandle | None = None
        self._wrote_at = 0.0
        self.on_quiet: Callable[[], None] | None = None
        """Called whenever an exchange has ended."""

    # -- from the core -----------------------------------------------------------------------------

    def write(
        self,
        data: bytes,
        wire_id: int = 0,
        *,
        cancels: int = 0,
        routing: Routing | None = None,
    ) -> bool:
        """Post a message; ``False`` when its bound is reached, or the channel is closed."""
        if not self.is_open:
            return False
        if cancels and self._drop(cancels):
            return True
        if self.is_held:
            if wire_id:
                self.held[wire_id] = None
            return True
        if self._unsent.kept_bytes + len(data) > self._max_unsent:
            return False
        if not self._unsent.take(len(data)):
            return False
        exchange = Exchange(self.endpoint, self, data, wire_id, routing)
        if self._is_introduced:
            self._is_introduced = False
            exchange.is_opening = True
            waits_for, self._opening = None, asyncio.Event()
        else:
            waits_for = self._opening
        self._wrote_at = asyncio.get_running_loop().time()
        work = self._run(exchange, waits_for, cancels)
        name = f"http.post {self.endpoint.server}"
        task = self._exchanges[exchange] = self._group.spawn(work, name=name)
        # Not in the task: one that is cancelled before it begins runs no ``finally``.
        task.add_done_callback(lambda _: self._ended(exchange))
        if wire_id:
            self._by_id[wire_id] = exchange
        return True

    def introduced(self, version: str) -> None:
        """Note the revision; the next message of a legacy handshake ends it."""
        endpoint = self.endpoint
        endpoint.version = version
        endpoint.is_modern = era_of(version) is Era.MODERN
        if endpoint.is_modern:
            endpoint.session_id = ""
        else:
            self._is_introduced = True

    def bring(self, elements: list[bytes]) -> None:
        """Deliver the elements of an array that the server sent."""
        for element in elements:
            self.deliver(element)

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of an event that has not ended, and its bytes so far."""
        found = [exchange.unfinished() for exchange in self._exchanges]
        found += [each.unfinished() for each in (self._unasked, self.old) if each is not None]
        return max(found, key=lambda each: each[1], default=(b"", 0))

    # -- from exchanges ----------------------------------------------------------------------------

    def deliver(self, frame: Frame | Oversized) -> None:
        """Take a message of the server."""
        if self.is_open:
            self._frames(frame)

    def failed(self, wire_id: int, failure: Failure, *, may_repeat: bool = False) -> None:
        """Note that a request will get no answer; harmless where it has one."""
        if self.is_open and wire_id:
            self._listener.failed(wire_id, failure, may_repeat=may_repeat)

    def forgotten(self, wire_id: int) -> None:
        """Note that the server does not know the session any more."""
        if self.is_open:
            self._listener.forgotten(wire_id)

    def lost(self, wire_id: int, failure: Failure) -> None:
        """Note that the server cannot be used."""
        if self.is_open:
            self._listener.lost(wire_id, failure)

    async def fall_back(self) -> bool:
        """Use HTTP+SSE from now on, where the server has it; tell whether it has."""
        return self._falls_back and self.old is None and not await self.open_old()

    # -- from the run ------------------------------------------------------------------------------

    async def open_old(self) -> int:
        """Open the stream of HTTP+SSE; return 0, or the HTTP status where there is none.

        Raises what ``OldStream.open`` and ``Endpoint.send`` do.
        """
        old = OldStream(self.endpoint, self.max_message_bytes)
        status = await old.open()
        if not status:
            self.old = old
            self._group.spawn(self._read_old(old), name=f"http.sse {self.endpoint.server}")
        return status

    def answering(self) -> list[Exchange]:
        """Return the requests that the server may have read, and has not answered."""
        return [each for each in self._exchanges if each.wire_id and each.is_sent]

    def unsent(self) -> list[int]:
        """Return the requests that the server has not read, and those that wait for the next."""
        waiting = [each.wire_id for each in self._exchanges if each.wire_id and not each.is_sent]
        return [*waiting, *self.held]

    @property
    def unsent_bytes(self) -> int:
        """The bytes of the messages that are under way."""
        return self._unsent.kept_bytes

    def mute(self) -> None:
        """Deliver and report nothing more."""
        self.is_open = False

    async def close(self) -> None:
        """End everything that is under way."""
        self.mute()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        await self._group.close()
        if self.old is not None:
            self.old.close()

    # -- inside ------------------------------------------------------------------------------------

    async def _run(self, exchange: Exchange, waits_for: asyncio.Event | None, cancels: int) -> None:
        if waits_for is not None:
            await waits_for.wait()
        if self.old is not None and exchange.method == "server/discover":
            self.deliver(_only_legacy(exchange.wire_id))
            return
        await exchange.run()
        if cancels and cancels in self._by_id:
            self._cancel_task(cancels)

    def _ended(self, exchange: Exchange) -> None:
        self._exchanges.pop(exchange, None)
        if self._by_id.get(exchange.wire_id) is exchange:
            del self._by_id[exchange.wire_id]
        self._unsent.add(-exchange.size_bytes)
        if exchange.is_opening:
            self._begin_unasked()
        if self.on_quiet is not None:
            self.on_quiet()

    def _begin_unasked(self) -> None:
        """Let everything go that waited for the end of the handshake, and listen."""
        if self._opening is not None:
            self._opening.set()
            self._opening = None
        if not self.is_open:
            return
        if self.old is None:
            self._unasked = UnaskedStream(self.endpoint, self.max_message_bytes)
            self._group.spawn(self._listen(self._unasked), name=f"http.get {self.endpoint.server}")
        if self._ping_interval > 0:
            self._set_ping(self._ping_interval)

    async def _listen(self, unasked: UnaskedStream) -> None:
        async for message in unasked.messages():
            if response_id(message) is None:  # answers come on the streams of their requests
                self.deliver(message)
        with contextlib.suppress(Unreachable, CannotAuthorize):
            if unasked.was_open and await self.endpoint.refuses_ping():
                self.forgotten(0)

    async def _read_old(self, old: OldStream) -> None:
        why = await old.read(self._deliver_old)
        if self.is_open:
            self._listener.lost(0, connect_failed(self.endpoint.server, "http", why))

    def _deliver_old(self, message: Frame | Oversized) -> None:
        if self._ping_interval <= 0 or response_id(message) != PING_ID:
            self.deliver(message)

    def _drop(self, wire_id: int) -> bool:
        """Give a request up; tell whether the server need not be told."""
        if self.held.pop(wire_id, 0) is None:
            return True
        exchange = self._by_id.get(wire_id)
        if exchange is not None and (self.endpoint.is_modern or not exchange.is_sent):
            self._cancel_task(wire_id)  # closing the response is what cancels
            return True
        if exchange is None:
            return self.endpoint.is_modern
        loop = asyncio.get_running_loop()
        loop.call_later(CANCELLED_S, self._cancel_exchange, exchange)
        return False

    def _cancel_task(self, wire_id: int) -> None:
        exchange = self._by_id.get(wire_id)
        if exchange is not None:
            self._cancel_exchange(exchange)

    def _cancel_exchange(self, exchange: Exchange) -> None:
        task = self._exchanges.get(exchange)
        if task is not None:
            task.cancel()

    # -- pings -------------------------------------------------------------------------------------

    def _set_ping(self, wait: float) -> None:
        self._ping_timer = asyncio.get_running_loop().call_later(wait, self._ping)

    def _ping(self) -> None:
        """Keep a connection in use that would be dropped by something on the way."""
        if not self.is_open:
            return
        quiet = asyncio.get_running_loop().time() - self._wrote_at
        if quiet >= self._ping_interval:
            self._group.spawn(self._send_ping(), name=f"http.ping {self.endpoint.server}")
            quiet = 0.0
        self._set_ping(self._ping_interval - quiet)

    async def _send_ping(self) -> None:
        with contextlib.suppress(Unreachable, CannotAuthorize):
            response = await self.endpoint.post(PING, Routing("ping"))
            await response.beginning(4096)
            response.close()


def _only_legacy(wire_id: int) -> bytes:
    """Return the answer to ``server/discover`` of a server that has HTTP+SSE, which is legacy."""
    return b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"HTTP+SSE"}}' % wire_id
