"""What is reported of calls: how many there were, and the facts of each.

The facts are that a call started, what it waited for, and how it ended. None is made, and no call
is timed for them, unless ``Context.tells_calls`` is set.
"""

from __future__ import annotations

from mcpd.core.facts import CallEnded, CallStarted, CallWaited
from mcpd.core.interface.context import Context
from mcpd.core.requests.inflight import Outcome, UpstreamRequest
from mcpd.ids import SessionId


class CallCounts:
    """The calls of tools that have ended, and those of them that ended in an error."""

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0

    def take(self) -> tuple[int, int]:
        """Return the calls and errors counted so far, and set both to 0."""
        counts = (self.calls, self.errors)
        self.calls = self.errors = 0
        return counts


def started(ctx: Context, leg: UpstreamRequest) -> None:
    """Report a call before it is sent, or waits to be; once for each call."""
    leg.created_at = ctx.now
    ctx.tell(CallStarted(SessionId(leg.owner), _server(leg), leg.method.name, leg.name))


def sent(ctx: Context, leg: UpstreamRequest) -> None:
    """Report how long a call waited before it was sent, if it did."""
    waited = ctx.now - leg.created_at
    if waited > 0 and not leg.tries:
        ctx.tell(CallWaited(SessionId(leg.owner), _server(leg), leg.method.name, leg.name, waited))


def ended(ctx: Context, leg: UpstreamRequest, outcome: Outcome) -> None:
    """Report how a call ended."""
    said = outcome.result if outcome.error is None else outcome.error
    ctx.tell(
        CallEnded(
            SessionId(leg.owner),
            _server(leg),
            leg.method.name,
            leg.name,
            outcome.how.value,
            None if outcome.failure is None else outcome.failure.kind,
            ctx.now - leg.created_at,
            leg.request_bytes,
            0 if said is None else len(said),
        )
    )


def _server(leg: UpstreamRequest) -> str:
    return "" if leg.entry is None else leg.entry.name
