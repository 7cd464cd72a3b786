"""What is kept in memory for peers, counted in bytes against one bound."""

from __future__ import annotations

from typing import Final

REQUEST_BYTES: Final = 1024
"""What a request takes besides its own bytes, about."""

FREE_BYTES: Final = 64 * 1024
"""What each of a thousand peers may have kept besides; less where the bound is low."""


class Memory:
    """The bytes that are kept for all peers: requests, questions, what they have not read.

    Invariant: ``kept_bytes`` is the sum of ``Share.kept_bytes`` over all shares.
    """

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` is ``max_buffered_bytes``."""
        self.most_bytes = most_bytes
        self.free_bytes = min(FREE_BYTES, most_bytes // 1000)
        """What each peer may always have kept: nobody is shut out by what others have sent."""
        self.kept_bytes = 0


class Share:
    """What is kept for one peer.

    A peer may take as much as is left for all others: one alone gets half of the bound, two get a
    third each, and there is always room for one more.
    """

    __slots__ = ("count", "kept_bytes", "memory")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.kept_bytes = 0
        self.count = 0
        """Requests for which something is kept."""

    def has_room(self, size: int) -> bool:
        """Tell whether so many bytes more may be kept."""
        kept = self.kept_bytes + size
        memory = self.memory
        return kept <= memory.most_bytes - memory.kept_bytes or kept <= memory.free_bytes

    def take(self, size: int) -> bool:
        """Count so many bytes more, if there is room for them; tell whether there was."""
        if not self.has_room(size):
            return False
        self.add(size)
        return True

    def add(self, size: int) -> None:
        """Count so many bytes more; a negative number gives them back."""
        self.kept_bytes += size
        self.memory.kept_bytes += size

    def set(self, size: int) -> None:
        """Count as many bytes as this, instead of what was counted before."""
        self.add(size - self.kept_bytes)


class Kept:
    """What is kept of one request, from its arrival until nobody needs it any more.

    It counts in the share of its peer from ``enter`` on. Whoever needs it for longer than its
    request is owed an answer calls ``keep``, and ``release`` when that is over; the last
    ``release`` gives everything back.
    """

    __slots__ = ("_keepers", "kept_bytes", "share")

    def __init__(self) -> None:
        self.share: Share | None = None
        """Where it counts; ``None`` before and after."""
        self.kept_bytes = 0
        self._keepers = 0

    def enter(self, share: Share, size: int) -> bool:
        """Count a request of so many bytes, if there is room; tell whether there was."""
        size += REQUEST_BYTES
        memory = share.memory
        kept = share.kept_bytes + size  # as in ``has_room`` and ``add``: each request comes here
        if kept > memory.most_bytes - memory.kept_bytes and kept > memory.free_bytes:
            return False
        share.kept_bytes = kept
        memory.kept_bytes += size
        share.count += 1
        self.share = share
        self.kept_bytes = size
        self._keepers = 1
        return True

    def keep(self) -> Kept:
        """Go on counting until one ``release`` more."""
        self._keepers += 1
        return self

    def release(self) -> None:
        """Give back what was counted, unless somebody else keeps it."""
        self._keepers -= 1
        share = self.share
        if not self._keepers and share is not None:
            share.count -= 1
            share.kept_bytes -= self.kept_bytes
            share.memory.kept_bytes -= self.kept_bytes
            self.share = None

    def grow(self, size: int) -> bool:
        """Count so many bytes more, if there is room for them; tell whether there was."""
        if self.share is not None and not self.share.has_room(size):
            return False
        self.add(size)
        return True

    def add(self, size: int) -> None:
        """Count so many bytes more; a negative number gives them back."""
        if self.share is not None:
            self.share.add(size)
            self.kept_bytes += size

    def take_over(self, other: Kept) -> None:
        """Count what was counted for another request of the peer that is the same one."""
        more = max(0, other.kept_bytes - self.kept_bytes)
        other.release()
        self.add(more)
