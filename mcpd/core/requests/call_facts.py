"""The facts of a call: that it started, what it waited for, and how it ended.

Nobody asks for them, and no call is timed for them, unless ``Context.tells_calls`` is set.
"""

from __future__ import annotations

from mcpd.core.facts import CallEnded, CallStarted, CallWaited
from mcpd.core.interface.context import Context
from mcpd.core.requests.inflight import Outcome, UpstreamRequest
from mcpd.ids import SessionId


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
