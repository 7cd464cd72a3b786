"""Counts the bytes that are kept in memory for peers, under one limit."""

from __future__ import annotations

from typing import Final

REQUEST_BYTES: Final = 1024
"""Memory that a request takes in addition to its own bytes, estimated."""

FREE_BYTES: Final = 64 * 1024
"""Bytes that each peer may always use, at most; a thousandth of a low limit.

A session has as many again for small requests beside what else is kept for it.
"""


class Memory:
    """The bytes that are kept for all peers: requests, questions and unread output.

    Invariant: ``kept_bytes`` is the sum of ``Share.kept_bytes`` over all shares.
    """

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` is ``max_buffered_bytes``."""
        self.most_bytes = most_bytes
        self.free_bytes = min(FREE_BYTES, most_bytes // 1000)
        """Bytes that each peer may always use, even if the others have used the limit up."""
        self.kept_bytes = 0


class Share:
    """The bytes that are kept for one peer.

    A peer may use as many bytes as are left for all others: a single peer gets half of the limit,
    two get a third each, and there is always room for one more.
    """

    __slots__ = ("count", "extra_bytes", "kept_bytes", "memory")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.kept_bytes = 0
        self.extra_bytes = 0
        """Of small requests that were taken though there was no room: ``free_bytes`` at most."""
        self.count = 0
        """Requests that are counted."""

    def has_room(self, size: int) -> bool:
        """Tell whether there is room for ``size`` bytes more."""
        kept = self.kept_bytes + size
        memory = self.memory
        return kept <= memory.most_bytes - memory.kept_bytes or kept <= memory.free_bytes

    def take(self, size: int) -> bool:
        """Count ``size`` bytes more if there is room; tell whether there was."""
        if not self.has_room(size):
            return False
        self.add(size)
        return True

    def add(self, size: int) -> None:
        """Count ``size`` bytes more; a negative number gives bytes back."""
        self.kept_bytes += size
        self.memory.kept_bytes += size

    def set(self, size: int) -> None:
        """Count exactly ``size`` bytes."""
        self.add(size - self.kept_bytes)


class RequestMemory:
    """The bytes that are kept of one request, with a reference count.

    They are counted in the share of its peer from ``enter`` on. Code that needs the request after
    its response calls ``keep``, and ``release`` when it is done; the last ``release`` gives the
    bytes back.
    """

    __slots__ = ("_extra_bytes", "_keepers", "kept_bytes", "share")

    def __init__(self) -> None:
        self.share: Share | None = None
        """The share that it is counted in; ``None`` if it is not counted."""
        self.kept_bytes = 0
        self._keepers = 0
        self._extra_bytes = 0

    def enter(self, share: Share, size: int) -> bool:
        """Count a request of ``size`` bytes if there is room; tell whether there was.

        Large requests of the same peer leave room for small ones.
        """
        size += REQUEST_BYTES
        memory = share.memory
        kept = share.kept_bytes + size  # ``has_room`` and ``add`` inlined, for speed
        extra = 0
        if kept > memory.most_bytes - memory.kept_bytes and kept > memory.free_bytes:
            if share.extra_bytes + size > memory.free_bytes:
                return False
            extra = size
            share.extra_bytes += size
        self._extra_bytes = extra
        share.kept_bytes = kept
        memory.kept_bytes += size
        share.count += 1
        self.share = share
        self.kept_bytes = size
        self._keepers = 1
        return True

    def enter_for_free(self, share: Share) -> None:
        """Count a request that is answered at once: it takes no memory of the peer's."""
        share.count += 1
        self.share = share
        self.kept_bytes = 0
        self._extra_bytes = 0
        self._keepers = 1

    def keep(self) -> RequestMemory:
        """Add a reference; return the request."""
        self._keepers += 1
        return self

    def release(self) -> None:
        """Drop a reference; with the last one, give the bytes back."""
        self._keepers -= 1
        share = self.share
        if not self._keepers and share is not None:
            share.count -= 1
            share.kept_bytes -= self.kept_bytes
            share.memory.kept_bytes -= self.kept_bytes
            share.extra_bytes -= self._extra_bytes
            self.share = None

    def grow(self, size: int) -> bool:
        """Count ``size`` bytes more if there is room; tell whether there was."""
        if self.share is not None and not self.share.has_room(size):
            return False
        self.add(size)
        return True

    def add(self, size: int) -> None:
        """Count ``size`` bytes more; a negative number gives bytes back."""
        if self.share is not None:
            self.share.add(size)
            self.kept_bytes += size

    def absorb(self, other: RequestMemory) -> None:
        """Count the bytes of another attempt of the same request, and release that one."""
        more = max(0, other.kept_bytes - self.kept_bytes)
        other.release()
        self.add(more)
