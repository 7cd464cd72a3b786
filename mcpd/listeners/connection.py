"""One connection that we accepted: frames in, a bounded outbox, what becomes of a slow reader."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import cast

from msgspec import Raw

from mcpd import tasks
from mcpd.core.wire.framing import Frame, Framer, Oversized, has_many_lines
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
    """What is kept for and of all clients, against one bound: unread answers, unfinished lines."""

    def __init__(self, *, one_bytes: int, all_bytes: int) -> None:
        self.one_bytes = one_bytes
        self.all_bytes = all_bytes
        self._slow: set[Connection] = set()
        self._unfinished: dict[Connection, int] = {}
        """How much is kept of the long lines that have begun."""

    def add(self, connection: Connection) -> None:
        """Count a connection whose client falls behind."""
        self._slow.add(connection)

    def remove(self, connection: Connection) -> None:
        """Count it no more."""
        self._slow.discard(connection)

    def has_begun(self, connection: Connection, size: int) -> None:
        """Count what is kept of a line that is not finished; 0 when it is."""
        if size:
            self._unfinished[connection] = size
            self.make_room()
        else:
            self._unfinished.pop(connection, None)

    def make_room(self) -> None:
        """While all together are over the bound, close the largest."""
        sizes = dict(self._unfinished)
        for each in self._slow:
            sizes[each] = sizes.get(each, 0) + each.unsent_bytes()
        while sizes and (total := sum(sizes.values())) > self.all_bytes:
            largest = max(sizes, key=sizes.__getitem__)
            mine = sizes.pop(largest)
            largest.abort(
                f"it does not read, or does not end its line: of {total} bytes that are kept of "
                f"all clients (max_buffered_bytes) {mine} were its own, the most"
            )


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
        self._turns = tasks.Turns(self._pause, self._resume)
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
        for frame in self._feed(data):
            if self._is_over:
                return
            self._on_frame(self.session, frame)
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
            for frame in self._feed(data[start : start + SLICE_BYTES]):
                if self._is_over:
                    return
                yield self._on_frame(self.session, frame)
            yield

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
        self._outboxes.add(self)

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
        self._outboxes.make_room()

    def _write_parts(self, transport: asyncio.Transport, parts: list[memoryview]) -> None:
        size = transport.get_write_buffer_size() + sum(map(len, parts))
        if self._is_slow and size > self._outboxes.one_bytes:
            self.abort(f"it does not read: {size} bytes were waiting (max_outbox_bytes)")
            return
        transport.writelines(parts)
        if self._is_slow:
            self._outboxes.make_room()

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
            self._outboxes.has_begun(self, 0)
            self._framer.drop()  # now, and not when the garbage collector comes to it
            self._on_closed(self.session, reason)
