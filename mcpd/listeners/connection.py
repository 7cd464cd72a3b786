"""An accepted connection: frames in, a bounded outbox, and closing a client that does not read."""

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
from mcpd.tasks import FEW_LINES, REST_BYTES, SLICE_BYTES

HUNG_UP = "its client hung up"
"""The usual reason why a session ends."""

LINGER_S = 5.0
"""Seconds in which a client of an ended session must read something of what is queued for it."""


class Outboxes:
    """Counts the bytes held for all clients: output that is not read, and unfinished input lines.

    They count in the memory that is shared with everything else held for clients and servers.
    """

    def __init__(self, *, one_bytes: int, memory: Memory) -> None:
        self.one_bytes = one_bytes
        self._memory = memory
        self._unread: dict[Connection, Share] = {}
        self._unfinished: dict[Connection, Share] = {}

    def count(self, connection: Connection, size: int) -> None:
        """Set the bytes that wait for a client that does not keep up.

        While the memory is over its bound, close the connection that holds most.
        """
        share = self._unread.get(connection)
        if share is None:
            share = self._unread[connection] = Share(self._memory)
        share.set(size)
        if self._memory.kept_bytes > self._memory.most_bytes:
            self._make_room()

    def all_read(self, connection: Connection) -> None:
        """Count nothing that waits for a client: it keeps up again."""
        share = self._unread.pop(connection, None)
        if share is not None:
            share.set(0)

    def remove(self, connection: Connection) -> None:
        """Count nothing for a connection any more."""
        for shares in (self._unread, self._unfinished):
            share = shares.pop(connection, None)
            if share is not None:
                share.set(0)

    def count_unfinished(self, connection: Connection, size: int) -> None:
        """Set the bytes held of a line that has no end yet; 0 for none."""
        share = self._unfinished.pop(connection, None)
        if size:
            share = self._unfinished[connection] = share or Share(self._memory)
        if share is not None:
            share.set(size)
        if self._memory.kept_bytes > self._memory.most_bytes:
            self._make_room()

    def _make_room(self) -> None:
        memory = self._memory
        for connection, share in self._unread.items():
            share.set(connection.unsent_bytes())  # some clients have read a part
        while (connections := {**self._unread, **self._unfinished}) and (
            total := memory.kept_bytes
        ) > memory.most_bytes:
            largest = max(connections, key=self._kept_of)
            its = self._kept_of(largest)
            if its <= memory.free_bytes:
                return
            self.remove(largest)
            largest.abort(
                f"it does not read, or does not end its line: of {total} bytes that are kept for "
                f"all clients and servers (max_buffered_bytes) {its} are its, the most"
            )

    def _kept_of(self, connection: Connection) -> int:
        shares = (self._unread.get(connection), self._unfinished.get(connection))
        return sum(share.kept_bytes for share in shares if share is not None)


class Connection(asyncio.Protocol):
    """Reads frames of one client and writes to it.

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
        """``half_open`` keeps the session of a client that ends its input and still reads.

        Without it the session ends with the input.
        """
        self.session = session
        self.has_received = False
        """Whether the client has sent anything."""
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
        self._has_ended = False
        """Whether the client has ended its input."""
        self._turns = tasks.FairReader(self._pause, self._resume)
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- what the loop calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        if self._turns.is_behind or self._is_unfinished or has_many_lines(data, FEW_LINES):
            self._turns.take(self._steps(data))
            if len(data) >= REST_BYTES:
                self._turns.rest()
            return
        if len(data) >= REST_BYTES:
            self._turns.rest()
        frames = iter(self._feed(data))
        for frame in frames:
            if self._is_over:
                return
            self._on_frame(self.session, frame)
            if self._turns.is_behind:  # the frame was an array
                self._turns.take(self._one_by_one(frames))
                return
        if self._framer.partial_bytes() > REST_BYTES:
            self._count_unfinished()

    def _count_unfinished(self) -> None:
        if self._is_over:
            return
        size = self._framer.buffered_bytes()
        is_long = size > REST_BYTES
        if is_long or self._is_unfinished:
            self._is_unfinished = is_long
            self._outboxes.count_unfinished(self, size if is_long else 0)

    def _steps(self, data: bytes) -> Iterator[None]:
        for start in range(0, len(data), SLICE_BYTES):
            yield from self._one_by_one(self._feed(data[start : start + SLICE_BYTES]))
            yield
        self._count_unfinished()

    def _one_by_one(self, frames: Iterable[Frame | Oversized]) -> Iterator[None]:
        for frame in frames:
            if self._is_over:
                return
            yield self._on_frame(self.session, frame)

    def bring(self, elements: list[bytes]) -> None:
        """Pass on the elements of an array before any other frame, in turns with other peers."""
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
        """Return whether the connection stays open for answers to a client that still reads.

        If the client has hung up, the session ends. Answers that are queued are still delivered.
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
        """Handle the last line, which may lack its newline, then report the end of the input."""
        for frame in self._feed(b"\n"):
            if not self._is_over:
                self._on_frame(self.session, frame)
        self._count_unfinished()
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
        self._outboxes.all_read(self)

    # -- what the daemon calls -------------------------------------------------------------------

    def write(
        self,
        data: bytes | tuple[bytes | Raw, ...],
        *,
        is_notification: bool = False,
        request: bytes = b"",
        is_response: bool = False,
    ) -> None:
        """Queue a line, or the parts of one.

        For a client that does not read, drop notifications first, then close the connection.
        ``request`` and ``is_response`` do not matter where one connection carries everything.
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
        """Return how many bytes wait in the process for the client to read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    async def wait_gone(self, timeout: float) -> None:
        """Wait, ``timeout`` seconds at most, until it is closed with all that was queued."""
        await asyncio.wait((self._gone,), timeout=timeout)

    def close(self, reason: str) -> None:
        """End the session, and close the connection once everything queued was written."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.close()
            self._linger(transport)
        self._end(reason)

    def _linger(self, transport: asyncio.Transport, before: float = math.inf) -> None:
        """Close the connection once the client has read nothing for ``LINGER_S``."""
        left = transport.get_write_buffer_size()
        if left >= before:
            transport.abort()
        elif left:
            loop = asyncio.get_running_loop()
            loop.call_later(LINGER_S, self._linger, transport, left)

    def abort(self, reason: str) -> None:
        """End the session and close the connection at once; drop what is queued."""
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
            self._framer.drop()  # the buffer is freed now, not by the garbage collector
            self._on_closed(self.session, reason)
