"""How many calls in which time: the generic cell rate algorithm, with one number for each key."""

from __future__ import annotations

from typing import Final, NamedTuple

LEAST_BURST: Final = 10
"""Calls that may come at once, however low the rate is."""

_BURST_PART: Final = 6
"""A burst is this part of the calls of a period."""


class Rate(NamedTuple):
    """How many calls in how many seconds."""

    calls: int
    seconds: float

    @property
    def interval(self) -> float:
        """The seconds of one call."""
        return self.seconds / self.calls

    @property
    def burst(self) -> float:
        """The calls that may come at once after a quiet time."""
        return max(self.calls / _BURST_PART, LEAST_BURST)


class Meter:
    """Measures the calls of one key; full of room at first."""

    __slots__ = ("_half", "_interval", "_next", "_rate", "_slack")

    def __init__(self, rate: Rate) -> None:
        self._next = 0.0
        """When the next call would be due if calls came evenly, in monotonic seconds."""
        self.rate = rate

    @property
    def rate(self) -> Rate:
        """The rate, which may be replaced at any time."""
        return self._rate

    @rate.setter
    def rate(self, rate: Rate) -> None:
        self._rate = rate
        self._interval = rate.interval
        self._slack = (rate.burst - 1) * rate.interval
        self._half = rate.burst / 2 * rate.interval

    def wait(self, now: float) -> float:
        """Return the seconds until there is room for a call; 0 where there is some."""
        wait = self._next - self._slack - now
        return wait if wait > 0 else 0.0

    def take_if_quiet(self, now: float) -> bool:
        """Count a call unless half of a burst has been used; tell whether it was counted."""
        ahead = self._next - now
        if ahead >= self._half:
            return False
        self._next = (self._next if ahead > 0 else now) + self._interval
        return True

    def take(self, now: float) -> None:
        """Count a call."""
        self._next = (self._next if self._next > now else now) + self._interval

    def is_half_used(self, now: float) -> bool:
        """Tell whether half of a burst has been used."""
        return self._next - now >= self._half

    def is_full(self, now: float) -> bool:
        """Tell whether nothing is known of it any more: it has all its room."""
        return self._next <= now
