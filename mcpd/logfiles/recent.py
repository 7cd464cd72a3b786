"""The newest lines of a log in memory, and those who follow it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mcpd.logfiles.line import LogLine

MOST_LINES: Final = 1000
MOST_BYTES: Final = 256 * 1024

Follower = Callable[[LogLine], None]
"""Called with each new line, while it is being added; must not raise."""


class RecentLines:
    """Keeps the newest lines of a log and passes each on to the followers.

    Invariant: never more than ``most_lines`` lines, nor more than ``most_bytes`` bytes.
    """

    def __init__(self, *, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> None:
        self._most_lines, self._most_bytes = most_lines, most_bytes
        self._lines: deque[tuple[LogLine, int, bool]] = deque()
        """Each line with its size in bytes and whether the sink has it, too."""
        self._bytes = 0
        self._followers: list[Follower] = []
        self.stored = 0
        """How many of the lines the sink has, too."""

    @property
    def is_followed(self) -> bool:
        """Whether there is a follower."""
        return bool(self._followers)

    def add(self, line: LogLine, size: int, *, is_stored: bool) -> None:
        """Add a line of ``size`` bytes and call the followers; drop the oldest over the bounds."""
        self._lines.append((line, size, is_stored))
        self._bytes += size
        self.stored += is_stored
        while len(self._lines) > self._most_lines or self._bytes > self._most_bytes:
            _, oldest_bytes, was_stored = self._lines.popleft()
            self._bytes -= oldest_bytes
            self.stored -= was_stored
        for follower in list(self._followers):
            follower(line)

    def lines(self) -> list[LogLine]:
        """Return the lines, the oldest first."""
        return [line for line, _, _ in self._lines]

    def unstored(self) -> list[LogLine]:
        """Return the lines after the last one that the sink has."""
        newest: list[LogLine] = []
        for line, _, is_stored in reversed(self._lines):
            if is_stored:
                break
            newest.append(line)
        return newest[::-1]

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` with each line from now on; return what ends that."""
        self._followers.append(follower)

        def unfollow() -> None:
            if follower in self._followers:
                self._followers.remove(follower)

        return unfollow
