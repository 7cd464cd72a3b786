"""The room that a server has for requests, and those that wait for some."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mcpd.core.interface.context import Context
from mcpd.core.interface.failures import no_place
from mcpd.core.requests.inflight import Inflight, Outcome, UpstreamRequest, failed
from mcpd.core.requests.process import Process
from mcpd.core.requests.queue import FairQueue


class Room:
    """Bounds the requests of sessions in flight at ``max_concurrency``.

    The others wait, for ``queue_timeout`` at most, and are sent in turn for each session.
    """

    def __init__(
        self,
        ctx: Context,
        process: Process,
        inflight: Inflight,
        *,
        send: Callable[[UpstreamRequest], None],
        end: Callable[[UpstreamRequest, Outcome], None],
    ) -> None:
        """``send`` takes a request that has room now, ``end`` one that waited for too long."""
        self.queue = FairQueue()
        """The requests that wait."""
        self._ctx = ctx
        self._process = process
        self._inflight = inflight
        self._send = send
        self._end = end

    def is_free(self) -> bool:
        """Tell whether one more request may be sent; ours are not counted."""
        limit = self._process.entry.max_concurrency
        return not limit or self._inflight.of_sessions < limit

    def wait(self, leg: UpstreamRequest) -> None:
        """Have a request wait until there is room for it."""
        self.queue.push(leg)
        timeout = self._process.entry.queue_timeout
        if timeout > 0:
            leg.queue_timer = self._ctx.after(timeout, partial(self._time_out, leg))

    def fill(self) -> None:
        """Send requests that wait, as far as there is room."""
        while self.queue.length and self._process.is_ready and self.is_free():
            leg = self.queue.pop()
            if leg is None:
                return
            self._stop_waiting(leg)

    def send_all_of(self, owner: int) -> None:
        """Send the requests of a session that wait, whether there is room or not."""
        for leg in self.queue.take(owner):
            self._stop_waiting(leg)

    def _stop_waiting(self, leg: UpstreamRequest) -> None:
        if leg.queue_timer is not None:
            leg.queue_timer.cancel()
        self._send(leg)

    def _time_out(self, leg: UpstreamRequest) -> None:
        entry, name = self._process.entry, self._process.name_for(leg)
        failure = no_place(leg.title(name), name, entry.queue_timeout, entry.max_concurrency)
        self._end(leg, failed(failure))
