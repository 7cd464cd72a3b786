"""Recent deaths of processes that never answered a call, and when to give up."""

from __future__ import annotations

from collections import deque


class Tally:
    """Counts deaths within a window of seconds."""

    def __init__(self, *, most: int, window: float) -> None:
        """Give up at ``most`` deaths within ``window`` seconds; 0 never gives up."""
        self._most = most
        self._window = window
        self._deaths: deque[float] = deque()

    def limit(self, *, most: int, window: float) -> None:
        """Go by other numbers from now on."""
        self._most = most
        self._window = window

    def add(self, now: float) -> bool:
        """Count a death; return whether it was one too many."""
        self._deaths.append(now)
        while self._deaths and self._deaths[0] <= now - self._window:
            self._deaths.popleft()
        return 0 < self._most <= len(self._deaths)

    def clear(self) -> None:
        """Forget all deaths."""
        self._deaths.clear()
