"""How long a start may take: twice as long as the last start that timed out.

A package runner that is killed loses what it has installed so far, so another start with the same
timeout would fail again.
"""

from __future__ import annotations

from typing import Final

MOST_LAUNCHES: Final = 1000
"""Launches whose timeouts are remembered; the least recently used is forgotten first."""


class StartTimeout:
    """The longest start-up time that was not enough for a launch. Its slots share it."""

    def __init__(self) -> None:
        self._longest = 0.0

    def next_limit(self, *, first: float, most: float) -> float:
        """Return the seconds that the next start may take; 0 (no limit) if ``first`` is 0.

        The limit is at least ``first``, even if ``most`` is less.
        """
        if first <= 0 or not self._longest:
            return first
        return max(first, min(2 * self._longest, most))

    def record(self, seconds: float) -> None:
        """Record that a start was not ready after this time."""
        self._longest = max(self._longest, seconds)

    def reset(self) -> None:
        """Forget the recorded times: a start succeeded, or the command is another one."""
        self._longest = 0.0


class StartTimeouts:
    """The start timeout of each launch, which outlives the slots of its sessions.

    It is kept in memory only, and lost when the daemon restarts.
    """

    def __init__(self) -> None:
        self._all: dict[str, StartTimeout] = {}

    def of(self, launch: str) -> StartTimeout:
        """Return the start timeout of a launch; make one if there is none."""
        found = self._all[launch] = self._all.pop(launch, StartTimeout())
        if len(self._all) > MOST_LAUNCHES:
            del self._all[next(iter(self._all))]
        return found
