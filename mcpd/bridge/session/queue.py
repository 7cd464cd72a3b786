"""The queue of frames for the daemon, which outlives the daemon it was filled for."""

from __future__ import annotations

import socket
from collections import deque
from itertools import chain, islice

from mcpd.bridge import scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpd.bridge.streams import Buffer

BUFFERS = 64  # at most 1024 in one call
HELD_BYTES = 1 << 20
"""The most that is held of requests which a draining daemon has sent back."""


class Item:
    """One frame of the client: its chunks, and the id and method of each message in it."""

    __slots__ = ("chunks", "found", "number", "size")

    def __init__(self, chunks: list[bytes], found: list[scan.Message] | None = None) -> None:
        self.chunks = chunks
        self.found = scan.messages(chunks) if found is None else found
        self.number = 0
        self.size = sum(map(len, chunks))

    def requests(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield id and method of each request in the frame."""
        for ident, method in self.found:
            if ident is not None and method is not None:
                yield ident, method


class Queue:
    """Frames that wait for the daemon: the bridge's own, then the client's while it is open.

    Invariant: ``sent`` is called for a frame as soon as the kernel has taken its first byte. The
    daemon has received nothing of a frame that is still queued.
    """

    def __init__(self, sent: Callable[[Item], None]) -> None:
        self.size = 0
        """Bytes that wait."""
        self.is_open = False
        """Whether the client's frames are sent, and not only the bridge's own."""
        self._sent = sent
        self._count = 0
        self._own: deque[bytes] = deque()
        self._items: deque[Item] = deque()
        self._held: list[Item] = []  # requests that the daemon has sent back
        self._rest: deque[Buffer] = deque()  # of the frame that is partly sent

    def __bool__(self) -> bool:
        """Return whether there is something to send to the current daemon."""
        return bool(self._rest or self._own or (self.is_open and self._items))

    def __iter__(self) -> Iterator[Item]:
        """Yield the client's frames in the order in which they were read."""
        return iter(sorted([*self._held, *self._items], key=lambda item: item.number))

    def requests(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield id and method of each request of the client that is queued."""
        for item in chain(self._held, self._items):
            yield from item.requests()

    def put(self, item: Item) -> None:
        """Append a frame of the client."""
        self._count += 1
        item.number = self._count
        self.size += item.size
        self._items.append(item)

    def put_own(self, frame: bytes) -> None:
        """Append a frame of the bridge, which goes before those of the client."""
        self._own.append(frame)
        self.size += len(frame)

    def hold(self, item: Item) -> bool:
        """Keep a frame for the next daemon; return ``False`` if there is no room."""
        if sum(each.size for each in self._held) + item.size > HELD_BYTES:
            return False
        self._held.append(item)
        return True

    def withdraw(self, ident: bytes, *, is_up: bool) -> bool:
        """Remove a request that the client cancels; return whether it was queued, in a frame alone.

        While a daemon ``is_up``, only held requests are removed: the others are sent, followed by
        their cancellation.
        """
        for kept in (self._held,) if is_up else (self._held, self._items):
            for item in kept:
                if len(item.found) == 1 and [name for name, _ in item.requests()] == [ident]:
                    kept.remove(item)
                    self._count_bytes()
                    return True
        return False

    def daemon_lost(self, again: list[Item]) -> None:
        """Drop the frames that were for the lost daemon alone; the next one gets ``again`` first.

        Responses of the client are dropped: they answer questions of the lost daemon.
        """
        self._held += again
        self._items = deque(item for item in self if not _is_answer(item))
        self._held.clear()
        self._own.clear()
        self._rest.clear()
        self.is_open = False
        self._count_bytes()

    def clear(self) -> list[Item]:
        """Remove and return all frames of the client."""
        taken = list(self)
        self._items.clear()
        self._held.clear()
        self._count_bytes()
        return taken

    def flush(self, connection: socket.socket) -> None:
        """Send what the kernel takes at once; raise ``OSError`` for a broken connection."""
        items = self._items
        while self._rest or self._own or (self.is_open and items):
            is_alone = len(items) == 1 and items[0].size == self.size == len(items[0].chunks[0])
            try:
                if is_alone:  # nearly always
                    written = connection.send(items[0].chunks[0], socket.MSG_DONTWAIT)
                else:
                    written = connection.sendmsg(self._buffers(), (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if is_alone and written == self.size:
                self.size = 0
                self._sent(items.popleft())
                return
            self._drop(written)

    def _buffers(self) -> list[Buffer]:
        items = islice(self._items, BUFFERS if self.is_open else 0)
        chunks = chain(self._rest, self._own, *(item.chunks for item in items))
        return list(islice(chunks, BUFFERS))

    def _drop(self, written: int) -> None:
        while written:
            if not self._rest:
                self._begin()
            first = self._rest.popleft()
            taken = min(written, len(first))
            self.size -= taken
            written -= taken
            if taken < len(first):
                self._rest.appendleft(memoryview(first)[taken:])

    def _count_bytes(self) -> None:
        pieces = sum(map(len, chain(self._rest, self._own)))
        self.size = pieces + sum(item.size for item in self._items)

    def _begin(self) -> None:
        if self._own:
            self._rest.append(self._own.popleft())
            return
        item = self._items.popleft()
        self._rest.extend(item.chunks)
        self._sent(item)


def _is_answer(item: Item) -> bool:
    return bool(item.found) and all(ident and not method for ident, method in item.found)
