"""Requests of our own to a server: handshakes, lists, log levels, subscriptions and pings."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from mcpd.core.mcp import codes
from mcpd.core.requests.inflight import End, Outcome, Recipient, UpstreamRequest

Answer = Callable[[Raw | bytes | None, Raw | bytes | None], None]
"""Called with the result or the error of a request of ours."""


class OwnRequest(Recipient):
    """Takes the outcome of a request of our own."""

    __slots__ = ("lost", "then")

    def __init__(self, then: Answer, lost: Callable[[], None] | None) -> None:
        self.then = then
        self.lost = lost

    def take_outcome(self, leg: UpstreamRequest, outcome: Outcome) -> None:
        """Pass on the result or the error, or that the process ended before it answered."""
        if outcome.how is not End.LOST:
            failure = outcome.failure
            error = outcome.error if failure is None else codes.error_object(failure)
            self.then(outcome.result, error)
        elif self.lost is not None:
            self.lost()
