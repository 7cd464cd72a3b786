"""One connection that we accepted: frames in, a bounded outbox, what becomes of a slow reader."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from msgspec import Raw

from mcpd import tasks
from mcpd.core.wire.framing import Frame, Framer, Oversized, has_many_lines
from mcpd.core.wire.memory import Memory, Share
from mcpd.ids import SessionId
from mcpd.listeners.halfopen import HalfOpen, has_hung_up

HUNG_UP = "its client hung up"
"""Why most sessions end."""

LINGER_S = 5.0
"""How long a client whose session is over may read nothing of what is queued for it."""


FEW_LINES = 32
"""Of what is read at a time, so many are done at once; more of them take turns with others."""

SLICE_BYTES = 16 * 1024
"""A step of those that take turns."""

REST_BYTES = 64 * 1024
"""After as much at a time others have their turn: libuv reads up to 32 times before it looks at
anybody else, and a large message comes as fast as it is read."""


class Outboxes:
    """What is kept for and of clients on its way: unread answers, and lines that are not finished.

    It is counted with what else is kept for peers.
    """

    def __init__(self, *, one_bytes: int, memory: Memory) -> None:
        self.one_bytes = one_bytes
        self._memory = memory
        self._slow: dict[Connection, Share] = {}
        self._unfinished: dict[Connection, Share] = {}

    def count(self, connection: Connection, size: int) -> None:
        """Count what waits for a client that falls behind, as of now.

        While everything together is over its bound, the largest outbox is closed.
        """
        share = self._slow.get(connection)
        if share is None:
            share = self._slow[connection] = Share(self._memory)
        share.set(size)
        if self._memory.kept_bytes > self._memory.most_bytes:
            self._make_room()

    def remove(self, connection: Connection) -> None:
        """Count it no more."""
        for shares in (self._slow, self._unfinished):
            share = shares.pop(connection, None)
            if share is not None:
                share.set(0)

    def has_begun(self, connection: Connection, size: int) -> None:
        """Count what is kept of a line that is not finished; 0 when it is."""
        share = self._unfinished.pop(connection, None)
        if size:
            share = self._unfinished[connection] = share or Share(self._memory)
        if share is not None:
            share.set(size)
        if self._memory.kept_bytes > self._memory.most_bytes:
            self._make_room()

    def _make_room(self) -> None:
        memory = self._memory
        for each, share in self._slow.items():
            share.set(each.unsent_bytes())  # some have read a part of what was written to them
        while (everybody := {**self._slow, **self._unfinished}) and (
            total := memory.kept_bytes
        ) > memory.most_bytes:
            largest = max(everybody, key=self._kept_of)
            mine = self._kept_of(largest)
            if mine <= memory.free_bytes:
                return
            self.remove(largest)
            largest.abort(
                f"it does not read, or does not end its line: of {total} bytes that are kept for "
                f"all clients and servers (max_buffered_bytes) {mine} are its, the most"
            )

    def _kept_of(self, connection: Connection) -> int:
        shares = (self._slow.get(connection), self._unfinished.get(connection))
        return sum(share.kept_bytes for share in shares if share is not None)


class Connection(asyncio.Protocol):
    """A client's end of a stream.

    Invariant: writing never waits and never raises, and ``on_closed`` is called exactly once.
    """

    def __init__(
        self,
        session: SessionId,
        *,
        max_frame_bytes: int,
        outboxes: Outboxes,
        on_frame: Callable[[SessionId, Frame | Oversized], None],
        on_closed: Callable[[SessionId, str], None],
        half_open: HalfOpen | None = None,
    ) -> None:
        """``half_open`` is told of a client that ends its input; without, that ends the session."""
        self.session = session
        self.has_heard = False
        """Whether anything has come."""
        self._framer = Framer(max_frame_bytes)
        self._feed = self._framer.feed
        self._is_unfinished = False
        self._outboxes = outboxes
        self._on_frame = on_frame
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._is_slow = False
        self._is_over = False
        self._half_open = half_open
        self._has_ended = False  # its input
        self._turns = tasks.FairReader(self._pause, self._resume)
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- what the loop calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.has_heard = True
        if self._turns.is_behind or has_many_lines(data, FEW_LINES):
            self._turns.take(self._steps(data))
            return
        if len(data) >= REST_BYTES:
            self._turns.rest()
        frames = iter(self._feed(data))
        for frame in frames:
            if self._is_over:
                return
            self._on_frame(self.session, frame)
            if self._turns.is_behind:  # it was an array
                self._turns.take(self._one_by_one(frames))
                return
        if self._is_unfinished or self._framer.pending() > REST_BYTES:
            self._count_unfinished()

    def _count_unfinished(self) -> None:
        if self._is_over:
            return
        size = self._framer.kept()
        self._is_unfinished = size > REST_BYTES
        self._outboxes.has_begun(self, size if self._is_unfinished else 0)

    def _steps(self, data: bytes) -> Iterator[None]:
        for start in range(0, len(data), SLICE_BYTES):
            yield from self._one_by_one(self._feed(data[start : start + SLICE_BYTES]))
            yield

    def _one_by_one(self, frames: Iterable[Frame | Oversized]) -> Iterator[None]:
        for frame in frames:
            if self._is_over:
                return
            yield self._on_frame(self.session, frame)

    def bring(self, elements: list[bytes]) -> None:
        """Hand over the elements of a frame before any other, in turns with other peers."""
        self._turns.first(self._one_by_one(elements))

    def _pause(self) -> None:
        if self._is_read:
            cast(asyncio.Transport, self._transport).pause_reading()

    def _resume(self) -> None:
        if self._is_read:
            cast(asyncio.Transport, self._transport).resume_reading()

    @property
    def _is_read(self) -> bool:
        transport = self._transport
        return transport is not None and not transport.is_closing() and not self._has_ended

    def eof_received(self) -> bool:
        """Return whether the connection stays open, for what a client that still reads is owed.

        The session of one that has hung up ends. What was answered already is still delivered.
        """
        if self._is_over or self._has_ended or self._transport is None:
            return self._has_ended and not self._is_over
        connection = self._transport.get_extra_info("socket")
        if self._half_open is None or connection is None or has_hung_up(connection):
            self.close(HUNG_UP)
            return False
        self._has_ended = True
        self._half_open.watch(connection, lambda: self.abort(HUNG_UP))
        if self._turns.is_behind:
            self._turns.take(self._end_input())
        else:
            for _ in self._end_input():
                continue
        return not self._is_over

    def _end_input(self) -> Iterator[None]:
        """Hear the last line, which may lack its end, and that there will be no more."""
        for frame in self._feed(b"\n"):
            if not self._is_over:
                self._on_frame(self.session, frame)
        yield
        if self._half_open is not None and not self._is_over:
            self._half_open.on_ended(self.session)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._gone.done():
            self._gone.set_result(None)
        self._end(HUNG_UP if exc is None else f"the connection broke: {exc}")

    def pause_writing(self) -> None:
        self._is_slow = True
        self._outboxes.count(self, self.unsent_bytes())

    def resume_writing(self) -> None:
        self._is_slow = False
        self._outboxes.remove(self)

    # -- what the daemon calls -------------------------------------------------------------------

    def write(
        self, data: bytes | tuple[bytes | Raw, ...], *, is_notification: bool = False
    ) -> None:
        """Queue a line, or the parts of one.

        A client that does not read loses notifications first, then us.
        """
        transport = self._transport
        if transport is None or self._is_over or transport.is_closing():
            return
        if isinstance(data, tuple):
            self._write_parts(transport, [memoryview(part) for part in data])
            return
        if not self._is_slow:
            transport.write(data)
            return
        most = self._outboxes.one_bytes
        size = transport.get_write_buffer_size() + len(data)
        if is_notification and size > most // 2:
            return
        if size > most:
            self.abort(f"it does not read: {size} bytes were waiting (max_outbox_bytes)")
            return
        transport.write(data)
        self._outboxes.count(self, size)

    def _write_parts(self, transport: asyncio.Transport, parts: list[memoryview]) -> None:
        size = transport.get_write_buffer_size() + sum(map(len, parts))
        if self._is_slow and size > self._outboxes.one_bytes:
            self.abort(f"it does not read: {size} bytes were waiting (max_outbox_bytes)")
            return
        transport.writelines(parts)
        if self._is_slow:
            self._outboxes.count(self, size)

    def unsent_bytes(self) -> int:
        """Return how much its client has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    async def wait_gone(self, timeout: float) -> None:
        """Wait until it is closed and everything that was queued went out, or was given up."""
        await asyncio.wait((self._gone,), timeout=timeout)

    def close(self, reason: str) -> None:
        """End the session, and the connection once what is queued has gone out."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.close()
            self._linger(transport)
        self._end(reason)

    def _linger(self, transport: asyncio.Transport, before: float = math.inf) -> None:
        """Give up what is queued once a client has read none of it for ``LINGER_S``."""
        left = transport.get_write_buffer_size()
        if left >= before:
            transport.abort()
        elif left:
            loop = asyncio.get_running_loop()
            loop.call_later(LINGER_S, self._linger, transport, left)

    def abort(self, reason: str) -> None:
        """End both at once; what is queued is lost."""
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            if self._has_ended and self._half_open is not None and self._transport is not None:
                self._half_open.forget(self._transport.get_extra_info("socket"))
            self._turns.drop()
            self._outboxes.remove(self)
            self._framer.drop()  # now, and not when the garbage collector comes to it
            self._on_closed(self.session, reason)
