"""How many calls a server was sent, and how many of them failed."""

from __future__ import annotations


class CallCounts:
    """The calls of tools that have ended, and those of them that ended in an error."""

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0

    def take(self) -> tuple[int, int]:
        """Return the calls and errors counted so far, and set both to 0."""
        counts = (self.calls, self.errors)
        self.calls = self.errors = 0
        return counts
