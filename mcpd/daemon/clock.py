"""The daemon's own time, from which is taken what it did not live through, and its one timer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

LATE_S: Final = 1.0
"""A timer that is later than this was not delayed by work: the daemon was stopped, the machine
slept, or had no time for us at all."""

DELAYED_S: Final = 0.05
"""After a delay of this length there may be something to read that makes what is due undue."""

READ_FIRST_S: Final = 0.002
"""For that. A timer, since what a loop is to call soon it calls before it reads."""

HALF_A_TICK_S: Final = 0.0005
"""uvloop rounds to milliseconds, and would call us before it is time."""

IN_A_ROW: Final = 3
"""So often the whole of a gap is given back: where every timer is late, deadlines still pass."""


class Clock:
    """Seconds in which the daemon was awake, and the one timer that goes off at one of them.

    Deadlines and backoff are of this clock, so nothing is due because of a time in which nobody
    could have answered. What the kernel's monotonic clock leaves out (on Linux a machine that
    sleeps), needs nothing; what it counts (a daemon that was stopped, a machine that had no time
    for it) shows by a timer that goes off far too late. Then all the time since the clock was last
    read is taken out: everything that was under way has the time left that it had then, and what
    is due comes one after the other, as it would have.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, on_gap: Callable[[float], None]) -> None:
        """``on_gap`` hears how many seconds were taken out, after they were."""
        self._loop = loop
        self._on_gap = on_gap
        self._gone = 0.0  # seconds taken out so far
        self._read_at = loop.time()  # on the loop's clock, as the next two
        self._due_at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._act: Callable[[], None] | None = None
        self._has_read_first = False
        self._gaps = 0  # since the timer last went off in time

    def now(self) -> float:
        """Return the time; it never goes back, and does not jump ahead."""
        time = self._loop.time()
        if time > self._due_at + LATE_S:
            self._take_out(time)
        self._read_at = time
        return time - self._gone

    def call_at(self, at: float, act: Callable[[], None]) -> None:
        """Call ``act`` at a time of this clock; what was to be called until now is not."""
        self._act = act
        self._due_at = at + self._gone
        self._has_read_first = False
        self._set_timer(self._due_at)

    def cancel(self) -> None:
        """Call nothing."""
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
        if self._loop.time() < self._due_at:  # a gap was taken out, by us or since it was set
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

    def _take_out(self, time: float) -> None:
        self._gaps += 1
        gap = time - (self._read_at if self._gaps <= IN_A_ROW else self._due_at)
        self._gone += gap
        self._due_at += gap
        self._on_gap(gap)
