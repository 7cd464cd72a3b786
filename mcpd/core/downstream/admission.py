"""The one way by which requests of clients get to servers, and who decides whether they may.

The module is long so that each check of a request is in one place, and none can be gone around.
"""

from __future__ import annotations

import itertools
from enum import Enum
from functools import partial
from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.approvals.gate import ApprovalGate
from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Kind
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.facts import Failure, ServerWarning
from mcpd.core.interface.commands import Validate
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.events import Validated
from mcpd.core.interface.failures import not_found
from mcpd.core.mcp.methods import Route
from mcpd.core.requests import call_facts
from mcpd.core.requests.inflight import End, Outcome, UpstreamRequest
from mcpd.core.requests.rate_limits import Limit, RateLimits
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import Waiting
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import arguments, envelope
from mcpd.ids import SessionId
from mcpd.principal import EVERYTHING, Scope

_NO_ARGUMENTS: Final = b"{}"
_REASON_LENGTH: Final = 300  # characters of why arguments were not checked that are told

ADMITTED: Final = frozenset((Route.TOOL, Route.PROMPT, Route.READ, Route.REFERENCE, Route.TASK))
"""Requests that are sent to a server for a client, or for a person: each passes ``admit``."""

_MEASURED: Final = (Route.TOOL, Route.PROMPT, Route.READ)
"""Requests that count for rates."""

NOT_ASKED: Final = {
    Route.PROMPT: "a prompt is text for a model, and does nothing",
    Route.READ: "a read does nothing",
    Route.REFERENCE: "a completion does nothing",
    Route.TASK: "a task is of a call that somebody was asked about",
}
"""Requests of ``ADMITTED`` that nobody is asked about, each with the reason."""

NOT_SENT: Final = {
    Route.INITIALIZE: "answered from what the server said in its own handshake",
    Route.DISCOVER: "answered from what the server said in its own handshake",
    Route.PING: "answered by mcpd",
    Route.LIST: "answered from the catalog; mcpd lists for all clients of a server",
    Route.LEVEL: "mcpd sets one level for all clients of a process",
    Route.SUBSCRIBE: "mcpd subscribes once for all clients of a process",
    Route.UNSUBSCRIBE: "mcpd unsubscribes when no client of a process is subscribed any more",
    Route.LISTEN: "answered by mcpd; it listens once for all clients of a process",
}
"""Requests of clients that no server gets, each with the reason why it needs no ``admit``."""


class Verdict(Enum):
    """What is decided about a request; one that is denied gets a failure instead."""

    ALLOW = "allow"
    CHECK = "check"
    """It may be sent once its arguments were checked."""


class Admission:
    """Admits requests of clients and of people to servers, and sends them.

    Sessions, control calls, retries of parked calls, rounds of questions and calls that move to
    another process: what reaches a server for somebody was passed to ``send``. It can be called
    again with a request that had to wait.
    """

    def __init__(
        self, state: MuxState, slots: Slots, settings: SessionSettings, gate: ApprovalGate
    ) -> None:
        self._state = state
        self._gate = gate
        self._slots = slots
        self._settings = settings
        self._rates = RateLimits(state.ctx, self._in_turn)
        self._tickets = itertools.count(1)
        self._checks: dict[int, tuple[ClientRequest, UpstreamRequest, Upstream]] = {}

    def __len__(self) -> int:
        """Return how many requests wait for their turn, or for a check of their arguments."""
        return len(self._checks) + len(self._rates)

    def admit(self, leg: UpstreamRequest, session: Session, entry: Entry) -> Verdict | Failure:
        """Decide whether a request may be sent to a server: the only place where that is decided.

        A failure denies it. A request that is sent again is decided about again. What decides, in
        this order: the scope of its principal, the server's patterns, its arguments. Rates come
        next, then people: ``send_to`` asks ``RateLimits`` and ``ApprovalGate``.
        """
        state, principal, tool, shown = self._state, session.principal, leg.tool, entry.filter
        if state.ctx.suspension is not None:
            return state.ctx.suspension
        if principal.scope is not EVERYTHING or principal.profile is not None:
            scope = state.scope_of(principal)
            denied = self._outside(scope, leg, entry)
            if denied is not None:
                return denied
            shown = state.filter_within(scope, entry)
        if tool is None:
            return state.pin_refusal(entry.name, leg) or Verdict.ALLOW
        if not (shown.admits_all or self._is_shown(shown, leg, entry.name, tool)):
            return self.tool_not_found(entry.name, tool, shown)
        if not shown.admits_all or state.asks is not None or state.definitions.is_holding:
            unclear = None if leg.params is None else arguments.unclear_member(leg.params)
            if unclear is not None:
                return _unclear(entry.name, tool, unclear)
            held = state.pin_refusal(entry.name, leg)
            if held is not None:
                return held
        if not (entry.validates or leg.client_info is None) or leg.is_checked:
            return Verdict.ALLOW
        return Verdict.CHECK

    def _outside(self, scope: Scope, leg: UpstreamRequest, entry: Entry) -> Failure | None:
        """Return that there is no such server, prompt or resource for a scope, if it is so."""
        if not scope.has(entry.shown_name):
            return self._state.not_found(entry.shown_name, scope)
        if leg.tool is not None:
            return None
        kind = _kind_of(leg)
        if kind is None or kind not in self._state.filter_within(scope, entry).hidden:
            return None
        return Failure("unsupported", f"{entry.name} has no {kind.capability}", entry.name)

    def _is_shown(self, shown: Filter, leg: UpstreamRequest, server: str, tool: str) -> bool:
        if not shown.read_only:
            return shown.admits(tool)
        item = self._state.tool_for(server, leg.client_info, tool)
        return item is not None and shown.shows(item)

    def tool_not_found(self, server: str, name: str, shown: Filter) -> Failure:
        """Return that a server has no such tool, or that it is hidden, and what is like it."""
        listing = self._state.catalog_of(server).get(Kind.TOOLS)
        known = [item.identity for item in listing.items if shown.shows(item)] if listing else []
        return not_found(server, name, self._state.ctx.suggest(name, known), Kind.TOOLS)

    def send(self, leg: UpstreamRequest) -> None:
        """Send a request to the process that its server has now, if it is admitted.

        One that is not, or whose server cannot be used, gets a failure.
        """
        state = self._state
        session = state.sessions.get(SessionId(leg.owner))
        if session is None or leg.is_over or leg.entry is None:
            return
        entry = state.entry(leg.entry.name)
        if isinstance(entry, Failure):
            self._refuse(leg, entry)
        else:
            self.send_to(leg, session, entry)

    def send_to(self, leg: UpstreamRequest, session: Session, entry: Entry) -> None:
        """Send a request to a server that can be used, if it is admitted."""
        ctx = self._state.ctx
        if ctx.tells_calls and leg.caller is None:
            call_facts.started(ctx, leg, session)
        verdict = self.admit(leg, session, entry)
        if isinstance(verdict, Failure):
            self._refuse(leg, verdict)
            return
        leg.entry = entry
        if self._state.has_rates and not self._has_its_turn(leg, session, entry):
            return
        client = leg.client_info
        if client is None:  # a control call
            upstream = self._slots.control_upstream(entry, session.workspace)
        else:
            used = session.upstreams.get(entry.name)
            if used is None or used.calls.entry is not entry:
                used = self._slots.upstream_for(session, entry)
            upstream = used
        if self._state.asks is not None and leg.tool is not None:
            asks = self._state.asks_of(session.principal, entry)
            if asks is not None and self._gate.holds(leg, session, entry, upstream, asks):
                return
        level = client.level if client is not None and leg.is_modern else None
        if level is not None and leg.leveled is not upstream:
            self._set_level(leg, upstream, level)
            return
        if verdict is Verdict.CHECK and self._check(leg, upstream):
            return
        upstream.calls.submit(leg)

    def reconsider(self, upstream: Upstream) -> None:
        """Decide again about what waits to be sent to a process: what decides has changed."""
        for leg in upstream.calls.waiting():
            session = self._state.sessions.get(SessionId(leg.owner))
            if session is None or leg.entry is None or leg.is_over:
                continue
            entry = self._state.entries.get(leg.entry.name)
            if entry is None:
                verdict: Verdict | Failure = self._state.not_found(leg.entry.name)
            else:
                verdict = entry.unavailable or self.admit(leg, session, entry)
            if isinstance(verdict, Failure):
                self._refuse(leg, verdict)
            elif entry is not None and self._gate.would_ask(leg, session, entry, upstream):
                upstream.calls.take_back(leg)
                self.send(leg)

    # -- rates -----------------------------------------------------------------------------------

    def _has_its_turn(self, leg: UpstreamRequest, session: Session, entry: Entry) -> bool:
        """Tell whether a request is within the rates; else it waits, and is sent in its turn."""
        request = leg.recipient
        if leg.method.route not in _MEASURED:
            return True
        limits = self._limits(session, entry)
        if limits and leg.limits_passed:
            limits = tuple(limit for limit in limits if limit.key not in leg.limits_passed)
        if not limits or not isinstance(request, ClientRequest):
            return True
        refuse = partial(self._refuse, leg)
        request.leave = self._rates.admit(leg, limits, entry.rate_wait, refuse)
        return request.leave is None

    def _limits(self, session: Session, entry: Entry) -> tuple[Limit, ...]:
        """Return the rates that calls of a session to a server are measured by, in their order."""
        policy = self._state.policy
        known, principal = session.limits, session.principal
        if (
            known is None
            or known[0] is not policy
            or known[1] is not principal
            or known[2] is not entry
        ):
            limits = self._limits_now(session, entry)
            known = session.limits = policy, principal, entry, limits
        return known[3]

    def _limits_now(self, session: Session, entry: Entry) -> tuple[Limit, ...]:
        found, policy, principal = [], self._state.policy, session.principal
        # requests without a session have one each; their principal's calls are measured together
        own = principal.label if session.is_brief else session.id
        if policy.client_rate is not None:
            found.append(Limit(("client", own), "client", policy.client_rate))
        profile = policy.profiles.get(principal.profile or "")
        if profile is not None and profile.rate is not None:
            whose = principal.name if principal.kind == "token" else own
            limit = "token" if principal.kind == "token" else "client"
            found.append(Limit((principal.profile, whose), limit, profile.rate))
        if entry.rate is not None:
            found.append(Limit(("server", entry.name), "server", entry.rate))
        return tuple(found)

    def _in_turn(self, leg: UpstreamRequest) -> None:
        """Go on with a request that has waited for its turn."""
        if isinstance(leg.recipient, ClientRequest):
            leg.recipient.leave = None
        self.send(leg)

    def _refuse(self, leg: UpstreamRequest, failure: Failure) -> None:
        how = End.FAILED if leg.sent_at else End.REFUSED
        outcome = Outcome(how, failure=failure)
        if leg.holder is not None:
            leg.holder.end(leg, outcome)
        elif isinstance(leg.recipient, ClientRequest):
            leg.recipient.refuse(failure)

    # -- the log level that a modern client wants -------------------------------------------------

    def _set_level(self, leg: UpstreamRequest, upstream: Upstream, level: str) -> None:
        """Have a legacy process log as much as a modern request wants, before it is sent."""
        is_first = leg.leveled is None
        request = leg.recipient
        if not isinstance(request, ClientRequest):
            leg.leveled = upstream
            upstream.log_level.set_at_least(level)
            upstream.calls.submit(leg)
        elif is_first:
            Waiting(self._state, request, upstream, self._started, self._again).for_start()
        else:
            leg.leveled = upstream
            waiting = Waiting(self._state, request, upstream, self._leveled, self._again)
            waiting.for_level(partial(upstream.log_level.set_at_least, level))

    def _started(self, request: ClientRequest, upstream: Upstream) -> None:
        leg = request.leg
        if leg is None:
            return
        leg.leveled = upstream
        if upstream.calls.is_modern:
            self.send(leg)
            return
        waiting = Waiting(self._state, request, upstream, self._leveled, self._again)
        waiting.for_level(partial(self._settings.apply_levels, upstream))

    def _leveled(self, request: ClientRequest, upstream: Upstream) -> None:
        self._again(request)

    def _again(self, request: ClientRequest) -> None:
        if request.leg is not None:
            self.send(request.leg)

    # -- the arguments of a call -----------------------------------------------------------------

    def _check(self, leg: UpstreamRequest, upstream: Upstream) -> bool:
        """Have a call's arguments checked, if the schema is known; tell whether they are."""
        name = leg.tool or ""
        item = upstream.client_lists.tool_for(leg.client_info, name)
        schema = item.input_schema() if item is not None else None
        found = None if leg.params is None else envelope.params_of(leg.params)
        request = leg.recipient
        if schema is None or found is None or not isinstance(request, ClientRequest):
            return False
        given = found.arguments
        raw = bytes(given) if isinstance(given, Raw) else _NO_ARGUMENTS
        ticket = next(self._tickets)
        request.keep()  # the arguments are looked at, even if the client gives the call up
        self._checks[ticket] = (request, leg, upstream)
        upstream.calls.hold(leg)
        self._state.ctx.emit(Validate(ticket, schema, raw))
        return True

    def validated(self, event: Validated) -> None:
        """Take the result of a check: send the call, or say what does not fit."""
        waiting = self._checks.pop(event.ticket, None)
        if waiting is None:
            return
        request, leg, upstream = waiting
        if not request.is_over and leg.entry is not None:
            if event.note is not None:
                redactor = leg.entry.redactor
                why = redactor.excerpt(event.note.encode(errors="replace"), _REASON_LENGTH)
                text = f"arguments of {leg.tool} were sent unchecked: {why}"
                self._state.ctx.tell(ServerWarning(leg.entry.name, text))
            if event.violations:
                self._refuse(leg, _misfit(leg.entry.name, leg.tool or "", event))
            else:
                leg.is_checked = True
                self.send(leg)
        request.release()
        upstream.calls.let_go(leg)


def _kind_of(leg: UpstreamRequest) -> Kind | None:
    """Return what a request uses that is no tool."""
    route = leg.method.route
    if route is Route.REFERENCE:  # a completion is for an argument of a prompt, or of a template
        found = None if leg.params is None else envelope.params_of(leg.params)
        ref = None if found is None or found.ref is UNSET else envelope.object_of(found.ref)
        is_prompt = envelope.text((ref or {}).get("type", UNSET)) == "ref/prompt"
        return Kind.PROMPTS if is_prompt else Kind.TEMPLATES
    return {Route.PROMPT: Kind.PROMPTS, Route.READ: Kind.RESOURCES}.get(route)


def _unclear(server: str, tool: str, member: str) -> Failure:
    why = f"params: {member!r} is there twice, or in another case, and readers differ in that"
    return Failure("invalid_arguments", f"{server}.{tool}: {why}", server)


def _misfit(server: str, tool: str, event: Validated) -> Failure:
    said = "; ".join(f"{v.path}: {v.message}" if v.path else v.message for v in event.violations)
    details = {
        "path": event.violations[0].path,
        "violations": [{"path": v.path, "message": v.message} for v in event.violations],
    }
    hint = f"mcpctl tools {server} --schema shows what it takes"
    message = f"{server}.{tool}: {said}"
    return Failure("invalid_arguments", message, server, False, hint, details)
