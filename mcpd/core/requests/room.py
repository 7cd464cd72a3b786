"""The room that a server has for requests, and those that wait for some."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial

from mcpd.core.facts import QUEUED
from mcpd.core.interface.context import Context
from mcpd.core.interface.failures import no_place
from mcpd.core.requests.inflight import Inflight, Outcome, UpstreamRequest, failed
from mcpd.core.requests.process import Process


class FairQueue:
    """Requests that wait for room at a server: one of each owner in turn.

    Pushing, taking the next and removing any take constant time.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[int, OrderedDict[UpstreamRequest, None]] = OrderedDict()
        self.length = 0
        """How many requests wait."""

    def push(self, leg: UpstreamRequest) -> None:
        """Put a request behind those of its owner."""
        line = self._lines.get(leg.owner)
        if line is None:
            line = self._lines[leg.owner] = OrderedDict()
        line[leg] = None
        self.length += 1

    def pop(self) -> UpstreamRequest | None:
        """Take the next owner's oldest request."""
        if not self._lines:
            return None
        owner, line = next(iter(self._lines.items()))
        leg, _ = line.popitem(last=False)
        self.length -= 1
        if line:
            self._lines.move_to_end(owner)
        else:
            del self._lines[owner]
        return leg

    def remove(self, leg: UpstreamRequest) -> bool:
        """Take out a request that is given up; tell whether it was there."""
        line = self._lines.get(leg.owner)
        if line is None or leg not in line:
            return False
        del line[leg]
        self.length -= 1
        if not line:
            del self._lines[leg.owner]
        return True

    def __iter__(self) -> Iterator[UpstreamRequest]:
        return iter([leg for line in self._lines.values() for leg in line])

    def take(self, owner: int) -> list[UpstreamRequest]:
        """Take out all of one owner."""
        taken = list(self._lines.pop(owner, ()))
        self.length -= len(taken)
        return taken

    def drain(self) -> list[UpstreamRequest]:
        """Take out everything."""
        lines, self._lines, self.length = self._lines, OrderedDict(), 0
        return [leg for line in lines.values() for leg in line]


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
        leg.flags |= QUEUED
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

    def drain(self) -> list[UpstreamRequest]:
        """Take out all that wait: they do not wait for room here any more."""
        waiting = self.queue.drain()
        for leg in waiting:
            leg.drop_timers()
        return waiting

    def _stop_waiting(self, leg: UpstreamRequest) -> None:
        if leg.queue_timer is not None:
            leg.queue_timer.cancel()
        self._send(leg)

    def _time_out(self, leg: UpstreamRequest) -> None:
        entry, name = self._process.entry, self._process.name_for(leg)
        failure = no_place(leg.title(name), name, entry.queue_timeout, entry.max_concurrency)
        self._end(leg, failed(failure))
