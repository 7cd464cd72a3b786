"""The gate before every server: may a call go on, is it refused, or is somebody asked about it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import UNSET

from mcpd.core.approvals import refusals
from mcpd.core.approvals.asking import Asking, CallToAsk
from mcpd.core.approvals.call_identity import Call, approval_of, arguments_of, client_of
from mcpd.core.approvals.remembered import Remembered
from mcpd.core.approvals.tool_pins import ToolPins
from mcpd.core.catalog.model import Item
from mcpd.core.facts import LATE_YES, AskedCall, Rule
from mcpd.core.interface.entries import Entry
from mcpd.core.policy.approvals import Asks
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import Waiting
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import arguments

ROUND_S: Final = 600.0
"""For how long a server's own question can be answered where its entry says: for ever."""


class ApprovalGate:
    """Decides about calls by what is remembered, and has somebody asked about the others."""

    def __init__(
        self,
        state: MuxState,
        parked: ParkedCalls,
        remembered: Remembered,
        pins: ToolPins,
        asking: Asking,
        send: Callable[[UpstreamRequest], None],
    ) -> None:
        """``send`` decides again about a call whose server had to be started first."""
        self._state = state
        self._parked_calls = parked
        self._remembered = remembered
        self._pins = pins
        self._asking = asking
        self._send = send

    def holds(
        self,
        leg: UpstreamRequest,
        session: Session,
        entry: Entry,
        upstream: Upstream,
        asks: Asks,
    ) -> bool:
        """Tell whether a call does not go on: it waits for an answer, or has been refused.

        One that was sent to a server before is not asked about again.
        """
        request, tool = leg.recipient, leg.tool
        if tool is None or leg.sent_at or not isinstance(request, ClientRequest):
            return False
        if not asks.needs_hints and asks.reason(tool, is_read_only=False) is None:
            return False
        item = self._item(tool, leg, upstream)
        reason = asks.reason(tool, is_read_only=item is not None and item.read_only)
        if reason is None and upstream.is_ready:
            return False
        leg.holder = None  # it may have waited for another process
        if not upstream.is_ready:  # what it says of the tool counts, not what it said before
            Waiting(self._state, request, upstream, self._started, self._again).for_start()
            return True
        if reason is None:
            return False
        leg.pin = pin = self._pins.pin_of(entry.name, item)
        if self._is_approved(leg, approval_of(entry.identity, pin)):
            return False
        call = _GatedCall(leg, request, session, entry, upstream, tool, item, pin, reason)
        return self._is_refused_or_asked_about(call)

    def would_ask(
        self, leg: UpstreamRequest, session: Session, entry: Entry, upstream: Upstream
    ) -> bool:
        """Tell whether a call that waits to be sent has to be decided about again.

        It was not asked about when it came, or somebody approved it for another definition.
        """
        asks = self._state.asks_of(session.principal, entry)
        if asks is None or leg.tool is None or leg.sent_at:
            return False
        item = self._item(leg.tool, leg, upstream)
        if asks.reason(leg.tool, is_read_only=item is not None and item.read_only) is None:
            return False
        approval = approval_of(entry.identity, self._pins.pin_of(entry.name, item))
        return not self._is_approved(leg, approval)

    def note_round(self, leg: UpstreamRequest, state: bytes | None) -> None:
        """Let the call pass once more that brings a server the answers which it wants.

        ``state`` is what the server wants back with them, as JSON.
        """
        call = leg.approved_call
        if isinstance(call, Call) and leg.entry is not None:
            again = call.with_state(state or b"null")
            self._remembered.add_late(again, leg.approval, leg.entry.parked_timeout or ROUND_S)

    # -- what is remembered ------------------------------------------------------------------------

    def _is_refused_or_asked_about(self, gated: _GatedCall) -> bool:
        """Decide about a call by what is remembered; ask about it where that says nothing."""
        leg, request, session, entry, upstream, tool, _, pin, _ = gated
        principal = session.principal.label
        approval = approval_of(entry.identity, pin)
        found = self._remembered.look(session.id, principal, entry.name, entry.identity, tool, pin)
        rule = found.rule
        if rule is not None and rule.answer == "no":
            request.refuse(refusals.denied_by_rule(rule, entry.name))
            return True
        if rule is not None and not self._remembered.has_refused(session.id, entry.name, tool):
            leg.approved, leg.rule = approval, rule.id
            return False
        raw = arguments_of(leg)
        try:
            values = arguments.read(raw)
        except arguments.Unfit as problem:
            if rule is not None:  # nobody is asked, and nobody has refused it
                leg.approved, leg.rule = approval, rule.id
                return False
            request.refuse(refusals.unreadable_arguments(entry.name, tool, problem))
            return True
        name, version = client_of(session, request)
        digest = arguments.digest(values)
        call = Call(principal, name, entry.name, entry.identity, tool, pin, digest)
        if (no := self._remembered.is_refused(session.id, call)) is not None:
            request.refuse(refusals.denied_by_rule(no, entry.name))
            return True
        if rule is not None:
            leg.approved, leg.rule = approval, rule.id
            return False
        if leg.approved_call == call:
            leg.approved = approval
            return False
        if self._has_late_yes(leg, request, call, approval):
            return False
        asked = _question_about(gated, name, version, raw, found.lapsed)
        self._asking.ask(asked, call, CallToAsk(leg, request, session, upstream, values))
        return True

    def _has_late_yes(
        self, leg: UpstreamRequest, request: ClientRequest, call: Call, approval: bytes
    ) -> bool:
        """Let a call through by a yes that came after it was first made; tell whether there is one.

        One that brings a server the answers to its own question goes on by the yes of its call.
        """
        state = request.found.state
        if leg.is_modern and state is not UNSET and not self._parked_calls.is_handle(request.found):
            again = call.with_state(bytes(state))
            if (number := self._remembered.take_late(again)) is not None:
                leg.approved, leg.approval, leg.approved_call = approval, number, call
                return True
        if (number := self._remembered.take_late(call)) is not None:
            leg.approved, leg.approval, leg.approved_call = approval, number, call
            leg.flags |= LATE_YES
            return True
        return False

    def _is_approved(self, leg: UpstreamRequest, approval: bytes) -> bool:
        """Tell whether somebody has let a call through, and has not taken that back."""
        return leg.approved == approval and (not leg.rule or self._remembered.has(leg.rule))

    # -- the tool and its server -----------------------------------------------------------------

    def _item(self, tool: str, leg: UpstreamRequest, upstream: Upstream) -> Item | None:
        """Return the definition of a tool as the client of a call gets it."""
        return upstream.client_lists.tool_for(leg.client_info, tool)

    def _started(self, request: ClientRequest, upstream: Upstream) -> None:
        self._again(request)

    def _again(self, request: ClientRequest) -> None:
        if request.leg is not None:
            self._send(request.leg)


class _GatedCall(NamedTuple):
    """A call of which the configuration says that somebody is asked, and why."""

    leg: UpstreamRequest
    request: ClientRequest
    session: Session
    entry: Entry
    upstream: Upstream
    tool: str
    item: Item | None
    pin: bytes
    reason: str


def _question_about(
    gated: _GatedCall,
    client: str | None,
    version: str | None,
    raw_arguments: bytes,
    lapsed: Rule | None,
) -> AskedCall:
    """Return the question about a call; ``lapsed`` is a yes that held for something else."""
    _, _, session, entry, _, tool, item, pin, reason = gated
    if lapsed is not None:
        reason = f"{reason}; {lapsed.lapsed} since somebody said {lapsed.answer}"
    return AskedCall(
        number=0,
        session=session.id,
        principal=session.principal.label,
        client=client,
        version=version,
        server=entry.name,
        identity=entry.identity,
        tool=tool,
        pin=pin,
        reason=reason,
        arguments=raw_arguments,
        definition=None if item is None else item.raw,
        before=None if lapsed is None else lapsed.definition,
        attached=session.attached,
        client_pid=session.client_pid,
    )
