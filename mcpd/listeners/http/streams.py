"""Event streams: messages on their way to a client, and those that a client may ask for again.

A ``Stream`` outlives the connections that carry it. Each event has an id, and a client that lost a
connection continues after the last one that it saw (2025-11-25, basic/transports, "Resumability
and Redelivery"). An ``Outbox`` is one connection that a stream is written to.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import Raw

from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.exchange import PIECE_BYTES

Line = bytes | tuple[bytes | Raw, ...]
"""One message, or the parts of a large one; it ends with a newline."""

MOST_HELD_BYTES: Final = 1024 * 1024
"""Bytes of a stream that are held for clients which resume it, its response not counted."""

_FIRST: Final = 1
"""The number of what is before the first event: a client can resume after it."""

_EVENT_ID: Final = re.compile(
    r"(?P<life>[0-9a-f]{8})\.(?P<stream>[0-9]{1,15})\.(?P<number>[0-9]{1,15})"
    r"(?:\.(?P<ident>[A-Za-z0-9_-]{1,1400}))?"
)

KEEPALIVE: Final = b": keep-alive\n\n"
RETRY_MS: Final = 1000


class Event(NamedTuple):
    """One message of a stream; ``ident`` is its event id, ``None`` where none can be resumed."""

    number: int
    ident: str | None
    line: Line
    is_response: bool

    @property
    def size_bytes(self) -> int:
        """Return the length of the message."""
        return size_of(self.line)

    def written(self) -> Iterator[bytes]:
        """Yield it as the event of a stream, a large one in pieces: it is never copied whole.

        A carriage return can only stand between the parts of a JSON text, where a blank says the
        same.
        """
        head = b"" if self.ident is None else b"id: %b\n" % self.ident.encode()
        head += b"event: message\ndata: "
        parts = (self.line,) if isinstance(self.line, bytes) else self.line
        if self.size_bytes <= PIECE_BYTES:
            yield b"".join((head, *parts, b"\n")).replace(b"\r", b" ")
            return
        yield head
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(view), PIECE_BYTES):
                yield bytes(view[at : at + PIECE_BYTES]).replace(b"\r", b" ")
        yield b"\n"


Queued = Event | bytes
"""A message, or a part of the stream that is none: a comment, a ``retry``, a priming event."""


class Outbox:
    """What one connection is about to be sent.

    A connection that does not read is given up once ``most_bytes`` wait for it. What is being sent
    counts in ``share`` until the next event is asked for.
    """

    def __init__(
        self,
        most_bytes: int,
        share: Share,
        abort: Callable[[], None] = lambda: None,
        put: Callable[[], None] = lambda: None,
    ) -> None:
        """``abort`` closes the connection at once; ``put`` is called after each event."""
        self._most_bytes = most_bytes
        self.share: Final = share
        self._abort = abort
        self._put = put
        self._queue: deque[Queued] = deque()
        self._waiting_bytes = 0
        self._sending_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self.is_closed = False

    def put(self, queued: Queued) -> bool:
        """Queue an event; return ``False``, and close, where too much waits already."""
        if self.is_closed:
            return False
        size = _size(queued)
        waits = self._waiting_bytes > 0
        if waits and (
            self._waiting_bytes + size > self._most_bytes or not self.share.has_room(size)
        ):
            self.drop()
            return False
        self.share.add(size)
        self._waiting_bytes += size
        self._queue.append(queued)
        self._wake()
        self._put()
        return True

    def close(self, last: bytes = b"") -> None:
        """End the connection after what is queued, and after ``last``."""
        if last and not self.is_closed:
            self.put(last)
        self.is_closed = True
        self._wake()

    def drop(self) -> None:
        """End the connection, and forget what is queued."""
        self._queue.clear()
        self.share.add(-self._waiting_bytes)
        self._waiting_bytes = 0
        self.close()

    def sent(self) -> None:
        """Note that what ``get`` returned last has been sent."""
        self.share.add(-self._sending_bytes)
        self._sending_bytes = 0

    def cut(self) -> None:
        """Close the connection at once: its client does not read, and others need the memory."""
        self.drop()
        self.sent()
        self._abort()

    @property
    def unsent_bytes(self) -> int:
        """Return the bytes that wait for the client to read them."""
        return self._waiting_bytes + self._sending_bytes

    @property
    def is_finished(self) -> bool:
        """Whether it is closed and nothing is queued."""
        return self.is_closed and not self._queue

    async def get(self, within_s: float | None = None) -> Queued | None:
        """Return what goes out next; ``None`` at the end, or where nothing came in time."""
        self.sent()
        if not self._queue and not self.is_closed:
            await self._wait(within_s)
        if not self._queue:
            return None
        queued = self._queue.popleft()
        size = _size(queued)
        self._sending_bytes = size
        self._waiting_bytes -= size
        return queued

    async def _wait(self, within_s: float | None) -> None:
        """Wait until something is queued, the outbox is closed, or the time is over."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = None if within_s is None else loop.call_later(within_s, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Outboxes:
    """The outboxes of connections that belong to no session.

    While the memory is over its bound, the one that holds the most is cut.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._open: set[Outbox] = set()

    @contextlib.contextmanager
    def opened(self, most_bytes: int, abort: Callable[[], None]) -> Iterator[Outbox]:
        """Yield an outbox; ``abort`` closes its connection at once."""
        outbox = Outbox(most_bytes, Share(self._memory), abort, self._make_room)
        self._open.add(outbox)
        try:
            yield outbox
        finally:
            self._open.remove(outbox)
            outbox.drop()
            outbox.sent()

    def _make_room(self) -> None:
        memory = self._memory
        while memory.kept_bytes > memory.most_bytes:
            largest = max(self._open, key=lambda outbox: outbox.share.kept_bytes)
            if largest.share.kept_bytes <= memory.free_bytes:
                return
            largest.cut()


class Stream:
    """The messages of one request, or those that belong to none, in their order.

    ``number`` is the stream's in its session. An event is held until the stream is forgotten, or
    until newer ones need its room, or others the memory; a response is always held.
    """

    def __init__(
        self, number: int, most_events: int, share: Share, life: str, ident: bytes | None = None
    ) -> None:
        """``share`` is where what is held counts.

        ``life`` stands for the daemon in its event ids, and ``ident`` is the id of its request, so
        that another daemon can tell what became of it.
        """
        self.number: Final = number
        self.ident: Final = ident
        self._prefix = f"{life}.{number}."
        self._suffix = "" if ident is None else "." + _encoded(ident)
        self.outbox: Outbox | None = None
        """The connection that carries it now."""
        self.ended_at: float | None = None
        """When its response came, or it was given up, in monotonic seconds."""
        self._most_events = most_events
        self._share = share
        self._is_held = True
        self._held: list[Event] = []
        self._held_bytes = 0
        self._counted = 0
        self._next = _FIRST + 1
        self._sent = _FIRST
        """The number of the last event that a connection was given."""
        self._resumed = _FIRST
        """The number of the event after which the present connection continues."""
        self._dropped = _FIRST
        """The number of the last event that is not held any more."""

    def add(self, line: Line, *, is_response: bool = False) -> None:
        """Add a message, and send it where there is a connection."""
        number = self._next
        self._next += 1
        event = Event(number, self.event_id(number), line, is_response)
        if self._is_held:
            self._held.append(event)
            self._count(event, 1)
            self._share.add(event.size_bytes)
            self._make_room()
        if self.outbox is not None:
            self._send(event)

    def event_id(self, number: int) -> str:
        """Return the id of an event, unique in its session."""
        return f"{self._prefix}{number}{self._suffix}"

    def prime(self) -> bytes:
        """Return an event without data, after which a client can resume this connection."""
        return b"id: %b\ndata:\n\n" % self.event_id(self._resumed).encode()

    def can_resume_after(self, number: int) -> bool:
        """Tell whether every event after this one is still held."""
        return self._dropped <= number < self._next

    def attach(self, outbox: Outbox, after: int | None = None) -> None:
        """Send what comes from now on to a connection, and before it what it has not been sent.

        With ``after`` that is every event after this number, else what no connection was given.
        One that carried the stream before is closed.
        """
        if self.outbox is not None and self.outbox is not outbox:
            self.outbox.close(retry())
        self.outbox = outbox
        self._resumed = first = self._sent if after is None else after
        for event in [each for each in self._held if each.number > first]:
            if not self._send(event):
                return

    def detach(self, outbox: Outbox) -> None:
        """Keep what comes until there is another connection."""
        if self.outbox is outbox:
            self.outbox = None

    def end(self, now: float) -> None:
        """Note that nothing more comes, and close the connection after what is queued."""
        self.ended_at = now
        if self.outbox is not None:
            self.outbox.close()
            self.outbox = None

    @property
    def held_bytes(self) -> int:
        """Return the bytes of what a client may ask for again."""
        return sum(event.size_bytes for event in self._held)

    def shed(self) -> None:
        """Give back what is held: no client can continue before what comes next."""
        for event in self._held:
            self._share.add(-event.size_bytes)
        self._held.clear()
        self._counted = self._held_bytes = 0
        self._dropped = self._next - 1

    def forget(self) -> None:
        """Hold nothing any more: no client resumes it."""
        self._is_held = False
        for event in self._held:
            self._share.add(-event.size_bytes)
        self._held.clear()

    def _send(self, event: Event) -> bool:
        outbox = self.outbox
        if outbox is None or not outbox.put(event):
            self.outbox = None
            return False
        self._sent = event.number
        return True

    def _count(self, event: Event, sign: int) -> None:
        if not event.is_response:
            self._counted += sign
            self._held_bytes += sign * event.size_bytes

    def _make_room(self) -> None:
        while self._counted and (
            self._counted > self._most_events
            or self._held_bytes > MOST_HELD_BYTES
            or not self._share.has_room(0)
        ):
            event = next(each for each in self._held if not each.is_response)
            self._held.remove(event)
            self._count(event, -1)
            self._share.add(-event.size_bytes)
            self._dropped = event.number


def size_of(line: Line) -> int:
    """Return the length of a message."""
    return len(line) if isinstance(line, bytes) else sum(map(len, line))


def _size(queued: Queued) -> int:
    return len(queued) if isinstance(queued, bytes) else queued.size_bytes


def retry() -> bytes:
    """Return an event that says when to come back, for a stream that is closed on purpose."""
    return b"retry: %d\n\n" % RETRY_MS


class EventId(NamedTuple):
    """An event id of a daemon; ``ident`` is the id of its stream's request, where it is of one."""

    life: str
    stream: int
    number: int
    ident: bytes | None


def parse_event_id(text: str) -> EventId | None:
    """Read an event id, ``None`` for another text."""
    found = _EVENT_ID.fullmatch(text)
    if found is None:
        return None
    ident: bytes | None = None
    if found["ident"] is not None:
        try:
            ident = base64.urlsafe_b64decode(found["ident"] + "==")
        except (binascii.Error, ValueError):
            return None
        if not envelope.is_id(ident):
            return None
    return EventId(found["life"], int(found["stream"]), int(found["number"]), ident)


def _encoded(ident: bytes) -> str:
    return base64.urlsafe_b64encode(ident).decode().rstrip("=")
