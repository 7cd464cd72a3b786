"""A monotonic clock without the time in which the daemon did not run, and its one timer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

LATE_S: Final = 1.0
"""Seconds after which a late timer was not delayed by work: the daemon was stopped, or the machine
slept or gave it no processor time."""

DELAYED_S: Final = 0.05
"""Seconds of delay after which an answer may wait to be read that arrived before the deadline."""

READ_FIRST_S: Final = 0.002
"""Seconds given to reading it. A timer, because ``call_soon`` runs before the loop reads."""

HALF_A_TICK_S: Final = 0.0005
"""Added to each timer: uvloop rounds to milliseconds, and would call too early."""

IN_A_ROW: Final = 3
"""Consecutive late timers for which the whole gap is subtracted. From then on only the lateness of
the timer is, so that deadlines pass also where every timer is late."""


class Clock:
    """Seconds in which the daemon ran, and the one timer of the daemon.

    All deadlines and backoffs use it, so nothing times out because of a time in which no answer
    could be read. The kernel's monotonic clock leaves some of that out already (on Linux, the sleep
    of the machine). What it counts (a stopped daemon, a machine without processor time for it)
    shows as a timer that goes off far too late. All time since the clock was last read is then
    subtracted: each deadline is as far away as it was, and they pass in their order.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, on_gap: Callable[[float], None]) -> None:
        """``on_gap`` is called with the seconds that were subtracted."""
        self._loop = loop
        self._on_gap = on_gap
        self._subtracted = 0.0  # seconds
        self._read_at = loop.time()  # in the loop's time, as ``_due_at``
        self._due_at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._act: Callable[[], None] | None = None
        self._has_read_first = False
        self._gaps = 0  # since the timer last went off in time

    def now(self) -> float:
        """Return the time; it never goes back, and does not jump ahead."""
        time = self._loop.time()
        if time > self._due_at + LATE_S:
            self._subtract_gap(time)
        self._read_at = time
        return time - self._subtracted

    def call_at(self, at: float, act: Callable[[], None]) -> None:
        """Call ``act`` at a time of this clock, instead of what was set before."""
        self._act = act
        self._due_at = at + self._subtracted
        self._has_read_first = False
        self._set_timer(self._due_at)

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._act = None
        self._due_at = math.inf

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at + HALF_A_TICK_S, self._ring)

    def _ring(self) -> None:
        self._timer = None
        is_delayed = self._loop.time() - self._due_at > DELAYED_S
        self.now()
        if self._loop.time() < self._due_at:  # a gap was subtracted since it was set
            self._set_timer(self._due_at)
        elif is_delayed and not self._has_read_first:
            self._has_read_first = True
            self._set_timer(self._loop.time() + READ_FIRST_S)
        else:
            if not self._has_read_first:
                self._gaps = 0
            act, self._act = self._act, None
            self._due_at = math.inf
            if act is not None:
                act()

    def _subtract_gap(self, time: float) -> None:
        self._gaps += 1
        gap = time - (self._read_at if self._gaps <= IN_A_ROW else self._due_at)
        self._subtracted += gap
        self._due_at += gap
        self._on_gap(gap)
