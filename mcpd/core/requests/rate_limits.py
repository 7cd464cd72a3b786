"""Calls that are over a rate: each waits its turn, fairly between sessions, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final, NamedTuple

from mcpd.core.facts import Failure
from mcpd.core.interface.context import Context, Timer
from mcpd.core.policy.rates import Meter, Rate
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.requests.room import FairQueue

_MOST_QUIET: Final = 1000
"""Meters that are kept before those with all their room are forgotten."""


PAUSE_S: Final = 0.01
"""Between two calls of the second half of a burst: so sessions whose calls come at the same time
share it."""


class Limit(NamedTuple):
    """One rate that a call is measured by."""

    key: Hashable
    """Whose calls: a server's, a session's, a token's."""

    name: str
    """What an error calls it: ``server``, ``client`` or ``token``."""

    rate: Rate


class _Line:
    """The meter of one key, and the calls that wait for it."""

    def __init__(self, key: Hashable, rate: Rate) -> None:
        self.key: Final = key
        self.meter = Meter(rate)
        self.queue = FairQueue()
        self.timer: Timer | None = None
        self.went_at = -PAUSE_S
        """When the last call went on, in monotonic seconds."""

    def wait(self, now: float, *, is_paced: bool = True) -> float:
        """Return the seconds until the next call may go on."""
        wait = self.meter.wait(now)
        if is_paced and self.meter.is_half_used(now):
            wait = max(wait, self.went_at + PAUSE_S - now)
        return wait

    def take(self, now: float) -> None:
        """Count a call that goes on."""
        self.meter.take(now)
        self.went_at = now


class RateLimits:
    """Measures calls by one limit after another."""

    def __init__(self, ctx: Context, passed: Callable[[UpstreamRequest], None]) -> None:
        """``passed`` takes a call that has waited for its turn, to be sent on."""
        self._ctx = ctx
        self._passed = passed
        self._lines: dict[Hashable, _Line] = {}

    def __len__(self) -> int:
        """Return how many calls wait."""
        return sum(line.queue.length for line in self._lines.values())

    def admit(
        self,
        leg: UpstreamRequest,
        limits: Sequence[Limit],
        most_s: float,
        refuse: Callable[[Failure], None],
    ) -> Callable[[], object] | None:
        """Return ``None`` where a call may go on; else what takes it out of where it waits.

        ``limits`` are those that it has not passed yet.
        It waits ``most_s`` seconds at most, for all limits together; then it is refused.
        """
        now = self._ctx.now
        for limit in limits:
            line = self._line(limit)
            if not line.queue.length and line.meter.take_if_quiet(now):
                line.went_at = now
                leg.limits_passed += (limit.key,)
                continue
            if line.queue.length or line.wait(now, is_paced=most_s > 0) > 0:
                if not leg.turn_by:
                    leg.turn_by = now + most_s
                return self._wait(leg, limit, line, refuse)
            line.take(now)
            leg.limits_passed += (limit.key,)
        return None

    def _line(self, limit: Limit) -> _Line:
        line = self._lines.get(limit.key)
        if line is None:
            if len(self._lines) >= _MOST_QUIET:
                self._forget_quiet()
            line = self._lines[limit.key] = _Line(limit.key, limit.rate)
        if line.meter.rate is not limit.rate:  # the configuration says another one now
            line.meter.rate = limit.rate
        return line

    def _forget_quiet(self) -> None:
        now = self._ctx.now
        quiet = [
            key
            for key, line in self._lines.items()
            if not line.queue.length and line.meter.is_full(now)
        ]
        for key in quiet:
            del self._lines[key]

    def _wait(
        self,
        leg: UpstreamRequest,
        limit: Limit,
        line: _Line,
        refuse: Callable[[Failure], None],
    ) -> Callable[[], object] | None:
        line.queue.push(leg)
        leg.queue_timer = self._ctx.after(
            leg.turn_by - self._ctx.now, partial(self._refuse, leg, limit, line, refuse)
        )
        self._arm(line)
        return partial(self._leave, leg, line)

    def _leave(self, leg: UpstreamRequest, line: _Line) -> None:
        leg.drop_timers()
        line.queue.remove(leg)
        self._arm(line)

    def _refuse(
        self,
        leg: UpstreamRequest,
        limit: Limit,
        line: _Line,
        refuse: Callable[[Failure], None],
    ) -> None:
        if not line.queue.remove(leg):
            return
        leg.queue_timer = None
        self._arm(line)
        rate = limit.rate
        wait = line.meter.wait(self._ctx.now) + line.queue.length * rate.interval
        details = {"limit": limit.name, "retry_after_s": round(wait + 0.005, 2)}
        whose = {"server": "this server takes", "client": "a session may make"}
        who = whose.get(limit.name, "this token may make")
        message = f"{who} {rate.calls} calls in {rate.seconds:g} s"
        server = None if leg.entry is None else leg.entry.name
        hint = f"try again in {wait:.1f} s"
        refuse(Failure("rate_limited", message, server, True, hint, details))

    def _arm(self, line: _Line) -> None:
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        if line.queue.length:
            wait = line.wait(self._ctx.now)
            line.timer = self._ctx.after(wait, partial(self._advance, line))

    def _advance(self, line: _Line) -> None:
        line.timer = None
        now = self._ctx.now
        while line.queue.length and line.wait(now) <= 0:
            leg = line.queue.pop()
            assert leg is not None  # the queue is not empty
            line.take(now)
            leg.limits_passed += (line.key,)
            leg.drop_timers()
            self._passed(leg)
        self._arm(line)
