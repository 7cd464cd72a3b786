"""Requests of our own to a server: handshakes, lists, log levels, subscriptions and pings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from mcpd.core.mcp import codes
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.methods import CLIENT_REQUESTS, Method
from mcpd.core.requests.inflight import OURS, End, Holder, Outcome, Recipient, UpstreamRequest
from mcpd.core.requests.process import Process
from mcpd.core.requests.timeouts import Timeouts

Answer = Callable[[Raw | bytes | None, Raw | bytes | None], None]
"""Called with the result or the error of a request of ours."""

Unanswered = Callable[[Raw | bytes | None], None]
"""Called where a process does not answer, with the error of a time-out or None when it ends."""


_TIMEOUT: Final = 60.0  # seconds for a list, a level or a subscription
_PING: Final = CLIENT_REQUESTS["ping"]


class OwnRequest(Recipient):
    """Takes the outcome of a request of our own."""

    __slots__ = ("then", "unanswered")

    def __init__(self, then: Answer, unanswered: Unanswered | None) -> None:
        self.then = then
        self.unanswered = unanswered

    def take_outcome(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """Pass on the result or the error, or that the process did not answer."""
        failure = outcome.failure
        error = outcome.error if failure is None else codes.error_object(failure)
        if outcome.how is End.LOST:
            if self.unanswered is not None:
                self.unanswered(None)
        elif outcome.how is End.TIMED_OUT and self.unanswered is not None:
            self.unanswered(error)
        else:
            self.then(outcome.result, error)


class OwnRequests:
    """Sends requests of our own to the process of a slot, past every queue."""

    def __init__(
        self,
        process: Process,
        holder: Holder,
        timeouts: Timeouts,
        send: Callable[[UpstreamRequest], None],
    ) -> None:
        """``holder`` holds the requests, and ``send`` sends one at once."""
        self._process = process
        self._holder = holder
        self._timeouts = timeouts
        self._send = send

    def ask(
        self,
        method: Method,
        params: bytes | None,
        then: Answer,
        *,
        unanswered: Unanswered | None = None,
        client_info: ClientInfo | None = None,
    ) -> UpstreamRequest:
        """Send a request; ``then`` gets its result or error.

        ``unanswered`` is called instead where the process does not answer. Without it, ``then``
        gets the error of a time-out, and nothing is called when the process ends. A modern process
        is told the capabilities of ``client_info``, if there is one, instead of ours.
        """
        leg = UpstreamRequest(OURS, method, params, OwnRequest(then, unanswered))
        leg.client_info = client_info
        leg.holder = self._holder
        self._send(leg)
        if self._process.is_ready and not leg.is_over:  # before, the start-up time counts
            self._timeouts.start(leg, _TIMEOUT, 0)
        return leg

    def ping(self, then: Answer) -> int:
        """Ping the process; return the wire id of the request."""
        return self.ask(_PING, None, then).wire_id
