"""How long a start may take: twice as long as the last one that ran out of time.

What a package runner has installed when it is killed is lost, so the same time once more would
never be enough.
"""

from __future__ import annotations

from typing import Final

MOST_LAUNCHES: Final = 1000
"""Of which it is remembered; the one that was asked for longest ago goes first."""


class Patience:
    """What the starts of one launch were given in vain. All of its places learn from each other."""

    def __init__(self) -> None:
        self._given = 0.0

    def limit(self, *, first: float, most: float) -> float:
        """Return what the next start gets, in seconds; 0, without a limit, if ``first`` is.

        It is never less than ``first``, whatever ``most`` says.
        """
        if first <= 0 or not self._given:
            return first
        return max(first, min(2 * self._given, most))

    def ran_out(self, limit: float) -> None:
        """A start was not done within so many seconds."""
        self._given = max(self._given, limit)

    def reset(self) -> None:
        """A start succeeded, or what is started is another thing: begin anew."""
        self._given = 0.0


class Patiences:
    """One for each launch, for longer than any place lasts: a session comes again with another.

    In memory alone: a new daemon begins anew.
    """

    def __init__(self) -> None:
        self._all: dict[str, Patience] = {}

    def of(self, launch: str) -> Patience:
        """Return that of a launch."""
        found = self._all[launch] = self._all.pop(launch, Patience())
        if len(self._all) > MOST_LAUNCHES:
            del self._all[next(iter(self._all))]
        return found
