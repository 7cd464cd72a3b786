"""Lines that were not written to a process, which does not read its input or has closed it."""

from __future__ import annotations

import math
from collections.abc import Callable

from mcpd.core.facts import ServerLogged
from mcpd.core.interface.context import Context
from mcpd.core.interface.failures import does_not_read
from mcpd.core.requests.inflight import OURS, Inflight, Outcome, UpstreamRequest, failed
from mcpd.core.requests.process import Process


class Unwritten:
    """Ends the requests that were not written to a process, and logs how much else was not."""

    def __init__(
        self,
        ctx: Context,
        process: Process,
        inflight: Inflight,
        end: Callable[[UpstreamRequest, Outcome], None],
    ) -> None:
        self._ctx = ctx
        self._process = process
        self._inflight = inflight
        self._end = end
        self._others = 0
        """Lines that are no requests and were not written, since the last log line about them."""
        self._logged_at = -math.inf

    def refuse(self, wire_id: int, *, is_gone: bool = False) -> None:
        """Take a line that was not written: a request by its id, or 0 for any other line.

        What is kept for the process has reached its bound, or the process has closed its input
        (``is_gone``): then its end, or the start-up time, tells why.
        """
        if not wire_id:
            if not is_gone:
                self._log_others()
            return
        leg = self._inflight.get(wire_id)
        if leg is None:
            return
        if is_gone:
            leg.is_written = False
        elif leg.owner != OURS or self._process.is_ready:
            self._end(leg, failed(does_not_read(self._process.entry.name)))

    def _log_others(self) -> None:
        """Log how many lines that are no requests were not written, once a second."""
        self._others += 1
        if self._ctx.now < self._logged_at + 1.0:
            return
        text = f"does not read its input: answers and notifications not written: {self._others}"
        self._ctx.tell(ServerLogged(self._process.entry.name, "warning", text))
        self._others, self._logged_at = 0, self._ctx.now
