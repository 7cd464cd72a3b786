"""Calls that were given up, until the process has read that: what it asks may still be of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from mcpd.core.interface.context import Context, Timer
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.requests.process import Process

READS_IN: Final = 2.0
"""Seconds for which others' calls wait until a process has read that a call was given up."""

MOST_GIVEN_UP: Final = 1000
"""Calls of a process that were given up, and of which it has not read that; then it is busy."""


class GivenUp:
    """Finds out when a process has read that a call was given up, by a ping sent after that."""

    def __init__(
        self,
        ctx: Context,
        process: Process,
        *,
        ping: Callable[[Callable[[object, object], None]], int],
        let_go: Callable[[Iterable[UpstreamRequest]], None],
    ) -> None:
        """``ping`` pings the process, and returns the wire id of that.

        ``let_go`` is called with calls that keep others from being sent no more.
        """
        self.unread: OrderedDict[UpstreamRequest, tuple[Timer, int]] = OrderedDict()
        """The calls, with the end of their turn and the id of the ping that followed. A process
        that answers that, or a later request, has read it."""
        self._ctx = ctx
        self._process = process
        self._ping = ping
        self._let_go = let_go

    def add(self, leg: UpstreamRequest) -> None:
        """Take a call that the process was just told is given up."""
        # a process that never reads costs no more memory than this
        leg.params = leg.unanswered_params = None
        # even where no client can be asked: that may change before the process reads this
        timer = self._ctx.after(READS_IN, lambda: self._let_go((leg,)))
        self.unread[leg] = (timer, 0)
        self.unread[leg] = (timer, self._ask_whether_read(leg))
        self._process.is_overrun = len(self.unread) >= MOST_GIVEN_UP

    def answered(self, wire_id: int) -> None:
        """Note that the process has answered a request: it has read what was sent before."""
        read = []
        while self.unread:
            earliest = next(iter(self.unread))
            timer, ping = self.unread[earliest]
            if not 0 < ping <= wire_id:
                break
            del self.unread[earliest]
            timer.cancel()
            read.append(earliest)
        if read:
            self._process.is_overrun = False
            self._let_go(read)

    def clear(self) -> None:
        """Forget the calls: the process is gone."""
        for timer, _ in self.unread.values():
            timer.cancel()
        self.unread.clear()
        self._process.is_overrun = False

    def _ask_whether_read(self, leg: UpstreamRequest) -> int:
        """Ping the process: it reads in order, and has read what came before when it answers."""

        def answered(result: object, error: object) -> None:
            if leg in self.unread:  # it does not read, or does not answer
                self._ctx.after(READS_IN, lambda: self._ask_again(leg))

        return self._ping(answered)

    def _ask_again(self, leg: UpstreamRequest) -> None:
        if self.unread and leg is next(reversed(self.unread)):  # one ping is enough for all
            self._ask_whether_read(leg)
