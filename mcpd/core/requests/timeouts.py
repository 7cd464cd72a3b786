"""The time-outs of requests to a server: started, extended by progress, suspended by questions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mcpd.core.interface.context import Context
from mcpd.core.requests.inflight import UpstreamRequest

TimedOut = Callable[[UpstreamRequest, str, float], None]
"""Called with a request, the name of the limit that it met, and the limit in seconds."""


class Timeouts:
    """Times requests: ``call_timeout`` begins again with progress, ``call_timeout_max`` does not.

    Both are suspended while there is a reason, such as an open question or a parked call.
    """

    def __init__(self, ctx: Context, timed_out: TimedOut) -> None:
        self._ctx = ctx
        self._timed_out = timed_out
        self._reasons: dict[UpstreamRequest, int] = {}

    def __len__(self) -> int:
        """Return how many requests are suspended."""
        return len(self._reasons)

    def start(self, leg: UpstreamRequest, timeout: float, most: float) -> None:
        """Start both time-outs, in seconds; 0 for no ``most``."""
        leg.timeout = timeout
        self._restart(leg)
        if most > 0:
            leg.most = most
            self._start_hard(leg, most)

    def restart(self, leg: UpstreamRequest) -> None:
        """Begin ``call_timeout`` again: there is progress."""
        if leg.timer is not None and leg.timer.act is not None:
            self._restart(leg)

    def reasons(self, leg: UpstreamRequest) -> int:
        """Return for how many reasons a request is suspended."""
        return self._reasons.get(leg, 0)

    def suspend(self, leg: UpstreamRequest) -> None:
        """Suspend the time-outs of a request, for one more reason."""
        reasons = self._reasons.get(leg, 0)
        self._reasons[leg] = reasons + 1
        if not reasons and not leg.is_over:
            leg.is_paused = True
            if leg.timer is not None:
                leg.timer.cancel()
            if leg.hard_timer is not None and leg.hard_timer.act is not None:
                leg.left = max(0.0, leg.hard_timer.at - self._ctx.now)
                leg.hard_timer.cancel()

    def resume(self, leg: UpstreamRequest) -> None:
        """Take back one reason; without any the time-outs go on, unless the request has ended."""
        reasons = self._reasons.pop(leg) - 1
        if reasons:
            self._reasons[leg] = reasons
        elif not leg.is_over:
            leg.is_paused = False
            if leg.timer is not None:
                self._restart(leg)
            if leg.hard_timer is not None:
                self._start_hard(leg, leg.left)

    def _restart(self, leg: UpstreamRequest) -> None:
        if leg.timer is not None:
            leg.timer.cancel()
        act = partial(self._timed_out, leg, "call_timeout", leg.timeout)
        leg.timer = self._ctx.after(leg.timeout, act)

    def _start_hard(self, leg: UpstreamRequest, seconds: float) -> None:
        act = partial(self._timed_out, leg, "call_timeout_max", leg.most)
        leg.hard_timer = self._ctx.after(seconds, act)
