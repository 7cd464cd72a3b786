"""What is reported of calls: how many there were, and how each ended.

The end of a call is reported where ``Context.tells_calls`` is set. Nothing is made, and no call is
timed for it, where it is not.
"""

from __future__ import annotations

from mcpd.core.facts import RETRIED, CallEnded
from mcpd.core.interface.context import Context
from mcpd.core.mcp.methods import Route
from mcpd.core.requests.inflight import CONTROL_CLIENT, Caller, Outcome, UpstreamRequest


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


def started(ctx: Context, leg: UpstreamRequest, caller: Caller) -> None:
    """Note when a call began and whose it is, before it is sent, or waits to be; once for each."""
    if leg.method.is_recorded:
        leg.created_at = ctx.now
        leg.caller = caller
        leg.arguments = leg.recipient.arguments()


def ended(ctx: Context, leg: UpstreamRequest, outcome: Outcome, server: str | None = None) -> None:
    """Report how a call ended that ``started`` has noted.

    ``server`` is the one that was named by a call that has no entry.
    """
    caller, params, now, method = leg.caller, leg.params, ctx.now, leg.method
    if caller is None:
        return
    failure, entry, created = outcome.failure, leg.entry, leg.created_at
    said = outcome.result if outcome.error is None else outcome.error
    client = CONTROL_CLIENT if leg.client_info is None else caller.client
    name = leg.tool
    if name is None and method.route is Route.PROMPT:
        name = leg.name
    ctx.commands.append(
        CallEnded(
            leg.owner,  # type: ignore[arg-type]  # a call by name costs as much as a field
            caller.principal,
            client,
            (server or "") if entry is None else entry.name,
            method.name,
            name,
            outcome.how,
            None if failure is None else failure.kind,
            now - created,
            (leg.first_sent_at or leg.sent_at or now) - created,
            0 if params is None else len(params),
            0 if said is None else len(said),
            leg.arguments,
            said,
            leg.pin,
            leg.approval,
            leg.flags | RETRIED if leg.tries else leg.flags,
        )
    )
