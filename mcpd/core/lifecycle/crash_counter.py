"""Counts recent crashes, to give up a server that crashes too often."""

from __future__ import annotations

from collections import deque


class CrashCounter:
    """Counts the crashes within a sliding window of seconds."""

    def __init__(self, *, most: int, window: float) -> None:
        """``most`` crashes within ``window`` seconds are too many; 0 allows any number."""
        self._most = most
        self._window = window
        self._times: deque[float] = deque()

    def set_limits(self, *, most: int, window: float) -> None:
        """Replace both limits; crashes that were counted still count."""
        self._most = most
        self._window = window

    def add(self, now: float) -> bool:
        """Count a crash; return whether there are too many now."""
        self._times.append(now)
        while self._times and self._times[0] <= now - self._window:
            self._times.popleft()
        return 0 < self._most <= len(self._times)

    def clear(self) -> None:
        """Forget all crashes."""
        self._times.clear()
