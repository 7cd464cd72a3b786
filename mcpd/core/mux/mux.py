"""Who gets which message: events and the time go in, commands come out.

The module is long because it builds the parts of the core, and has the one table of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from mcpd.core.approvals.approvals import Approvals
from mcpd.core.catalog.model import Kind
from mcpd.core.definitions.definitions import Definitions
from mcpd.core.downstream.admission import Admission
from mcpd.core.downstream.client_subscriptions import ClientSubscriptions
from mcpd.core.downstream.control import ControlRequests
from mcpd.core.downstream.forwarding import Forwarding
from mcpd.core.downstream.lingering import Lingering
from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.downstream.recovery import Recovery
from mcpd.core.downstream.request_router import RequestRouter
from mcpd.core.downstream.resource_owners import ResourceOwners
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.facts import Failure, ServerWarning
from mcpd.core.interface import events
from mcpd.core.interface.commands import Command
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Settings
from mcpd.core.mux.client_messages import ClientMessages
from mcpd.core.mux.connections import ConnectionEvent, Connections
from mcpd.core.mux.notifier import Notifier
from mcpd.core.mux.pinning import Pinning
from mcpd.core.mux.reconfiguration import Reconfiguration
from mcpd.core.mux.report import EntryReport, SessionReport, report, sessions
from mcpd.core.mux.server_messages import ServerMessages
from mcpd.core.questions.input_rounds import InputRounds
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.question import OpenQuestions
from mcpd.core.questions.questions import Questions
from mcpd.core.questions.roots import Roots
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.wire.memory import Memory
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Principal

ProcessEvent = (
    events.ServerUp
    | events.ProbeRead
    | events.WriteRefused
    | events.RequestFailed
    | events.ServerDown
)
"""What happens to the process of a slot, but for what it writes."""

RareEvent = (
    events.EntriesChanged
    | events.DayBegan
    | events.UserStop
    | events.StartUnasked
    | events.AcceptPins
    | events.Approve
    | events.Forget
    | events.RulesKnown
    | events.RulesKept
    | events.Draining
    | events.Farewell
)
"""What is configured, what a person decides, what the disk remembers, and that the daemon ends."""


class Mux:
    """Many clients of many servers. It never blocks and never raises for what a peer did."""

    def __init__(
        self, settings: Settings, *, suggest: Callable[[str, Iterable[str]], list[str]]
    ) -> None:
        self.context = Context(settings, suggest)
        """``context.soonest`` is the next deadline; the dispatcher sets its timer by it."""
        self._state = state = MuxState(self.context)
        # a client's questions: of legacy servers, of modern ones, and parked calls
        self._open_questions = OpenQuestions()
        self._parked_calls = ParkedCalls(state, self._open_questions)
        self._questions = asked = Questions(state, self._open_questions, self._parked_calls)
        # processes
        self._notifier = Notifier(state, asked, self._parked_calls)
        self._slots = slots = Slots(state, self._notifier)
        self._pinning = Pinning(state, self._notifier)
        # what clients and people ask
        served = ListRequests(state, slots)
        owners = ResourceOwners(state, served)
        self._settings = SessionSettings(state, slots, served, owners)
        self.approvals = Approvals(state, asked.to_clients, self._parked_calls, self._send_again)
        """Calls that somebody is asked about, and what is remembered of the answers."""
        self._admission = admission = Admission(state, slots, self._settings, self.approvals.gate)
        self._notifier.reconsider = admission.reconsider
        self._client_subscriptions = ClientSubscriptions(state, slots, owners)
        forward = Forwarding(
            state, slots, admission, served=served, owners=owners, parked=self._parked_calls
        )
        router = RequestRouter(
            state,
            slots,
            served=served,
            settings=self._settings,
            forward=forward,
            listens=self._client_subscriptions,
        )
        self._client_messages = ClientMessages(
            state,
            downstream=router,
            settings=self._settings,
            listens=self._client_subscriptions,
            parked=self._parked_calls,
            asked=asked,
        )
        self._control = ControlRequests(state, slots, admission, served, owners)
        self._lingering = Lingering(state, self._parked_calls)
        self._recovery = Recovery(state, served)
        # what servers send
        self._input_rounds = InputRounds(
            state, asked, self._parked_calls, admission.send, self.approvals.gate.note_round
        )
        self._server_messages = ServerMessages(
            self.context,
            asked=asked,
            roots=Roots(state, self._open_questions, asked),
            rounds=self._input_rounds,
            notifier=self._notifier,
        )
        self._connections, self._reconfiguration = self._changes()

    def _changes(self) -> tuple[Connections, Reconfiguration]:
        """Return the parts that add sessions and processes to the tables, and remove them."""
        connections = Connections(
            self._state,
            self._slots,
            messages=self._client_messages,
            settings=self._settings,
            listens=self._client_subscriptions,
            questions=self._questions,
            parked=self._parked_calls,
            lingering=self._lingering,
            notifier=self._notifier,
            approvals=self.approvals,
        )
        reconfiguration = Reconfiguration(
            self._state,
            self._slots,
            admission=self._admission,
            settings=self._settings,
            listens=self._client_subscriptions,
            notifier=self._notifier,
            pinning=self._pinning,
            approvals=self.approvals,
        )
        return connections, reconfiguration

    def said_instead(self, slot: SlotId) -> str:
        """Return the end of an error: what a process that is not ready wrote that is no message."""
        upstream = self._state.at(slot)
        return "" if upstream is None else upstream.calls.while_starting()

    def handle(self, event: events.Event, now: float) -> list[Command]:
        """React to one event. Never blocks and never raises for what a peer did.

        ``now`` is monotonic seconds; two calls may pass the same value.
        """
        ctx = self.context
        ctx.now = now
        commands: list[Command] = []
        ctx.commands = commands
        match event:
            case events.FrameFromSession():
                session = self._state.sessions.get(event.session)
                if session is not None:
                    batch = session.batch
                    self._client_messages.receive(session, event.frame, batch)
                    if batch is not None and batch.read():
                        session.batch = None
            case events.FrameFromServer():
                upstream = self._state.at(event.slot)
                if upstream is not None:
                    self._server_messages.receive(upstream, event.frame)
            case events.Tick():
                ctx.run_due()
            case (
                events.ServerUp()
                | events.ProbeRead()
                | events.WriteRefused()
                | events.RequestFailed()
                | events.ServerDown()
            ):
                self._of_process(event)
            case events.CallTool():
                self._control.call(event)
            case events.ListItems():
                self._control.lists(event)
            case events.ReadResource():
                self._control.read(event)
            case events.GetPrompt():
                self._control.prompt(event)
            case events.Validated():
                self._admission.validated(event)
            case events.ListExamined():
                self._state.definitions.examinations.done(event.ticket, event.examined)
            case events.ResultCleaned():
                self._server_messages.results.cleaned(event)
            case _:  # the parameter's type admits no others
                self._handle_rest(event)
        if self._lingering.sessions or self._lingering.released:
            self._lingering.look()
        return commands

    def _handle_rest(self, event: RareEvent | ConnectionEvent) -> None:
        match event:
            case events.EntriesChanged():
                self._state.sources = event.sources
                self._reconfiguration.apply(event.entries, event.policy)
            case events.DayBegan():
                self._questions.budgets.day_began(event.spent)
            case events.UserStop():
                self._hold(event)
            case events.StartUnasked():
                self._reserve(event)
            case events.AcceptPins():
                self._pinning.accept(event)
            case events.Approve() | events.Forget():
                self._of_person(event)
            case events.RulesKnown():
                self.approvals.remembered.take_up(event.rules)
            case events.RulesKept():
                self.approvals.remembered.kept(event.ticket, event.problem)
            case events.Draining():
                self._client_messages.is_draining = True
                self.approvals.drain()
                self._client_subscriptions.end_all()
            case events.Farewell():
                self._connections.say_farewell()
            case _:  # the events of one connection
                self._connections.handle(event)

    def _send_again(self, leg: UpstreamRequest) -> None:
        self._admission.send(leg)

    def _of_person(self, event: events.Approve | events.Forget) -> None:
        session = self._state.sessions.get(event.session)
        request = None if session is None else session.requests.get(event.key)
        if request is None:
            return
        if isinstance(event, events.Approve):
            self.approvals.answers.approve(event, request)
        else:
            self.approvals.answers.forget(event, request)

    def _of_process(self, event: ProcessEvent) -> None:
        upstream = self._state.at(event.slot)
        if upstream is None:
            return
        match event:
            case events.ServerUp():
                if not self._state.has_left(upstream):
                    upstream.up()
            case events.ProbeRead():
                upstream.probe_read()
            case events.WriteRefused():
                upstream.calls.unwritten.refuse(event.wire_id, is_gone=event.is_gone)
            case events.RequestFailed():
                upstream.request_failed(event.wire_id, event.failure, may_repeat=event.may_repeat)
            case events.ServerDown():
                upstream.down(
                    event.failure,
                    is_planned=event.is_planned,
                    comes_back=event.comes_back and not self._state.has_left(upstream),
                )
                if not event.comes_back:
                    self._recovery.lost(upstream)
                    self._slots.tidy(upstream)
            case _:
                assert_never(event)

    def _reserve(self, event: events.StartUnasked) -> None:
        entry = self._state.entries.get(event.server)
        if entry is not None and entry.unavailable is None:
            self._slots.control_upstream(entry)

    def next_deadline(self) -> float | None:
        """Return when a ``Tick`` is due, in monotonic seconds; ``None`` while nothing is."""
        return self.context.next_deadline()

    def report(self, name: str) -> EntryReport:
        """Return what there is to say of a configured server."""
        return report(self._state, name)

    def definitions(self, name: str) -> Definitions | None:
        """Return what judges the definitions of a server; ``None`` where nothing does."""
        return self._state.definitions_of(name)

    def is_unused(self, slot: SlotId) -> bool:
        """Tell whether nothing is under way at a place: no request, and no question."""
        upstream = self._state.at(slot)
        return upstream is None or not (
            upstream.calls.load() or self._open_questions.is_asking(upstream)
        )

    def sessions(self) -> list[SessionReport]:
        """Return the sessions on every endpoint."""
        return sessions(self._state)

    def parked_session(self, state: str) -> SessionId | None:
        """Return the session whose call is parked under a ``requestState``."""
        return self._parked_calls.session_of(state)

    def attached(self) -> list[tuple[SessionId, str]]:
        """Return the sessions that have attached, and what they called themselves."""
        sessions = self._state.sessions.values()
        return [(each.id, each.attached or "") for each in sessions if each.is_session]

    @property
    def asks_people(self) -> bool:
        """Whether somebody is asked about calls, of any server."""
        return self._state.asks is not None

    def approval_of(self, server: str) -> str | None:
        """Return which calls of a server somebody is asked about, ``None`` for none."""
        entry = self._state.entries.get(server)
        if entry is None or self._state.asks is None:
            return None
        mode = entry.approval or self._state.policy.approval
        return None if mode == "auto" and not entry.ask else mode

    def refusal(self, server: str, principal: Principal) -> Failure | None:
        """Return why an endpoint is none for a principal, or ``None`` where it is one."""
        scope = self._state.scope_of(principal)
        if self._state.views.named(server, None) is not None and scope.has(server):
            return None
        return self._state.not_found(server, scope)

    def tool_schema(self, server: str | None, tool: str, principal: Principal) -> bytes | None:
        """Return the input schema of a tool, as last listed; ``None`` where it is unknown."""
        state = self._state
        scope = state.scope_of(principal)
        if server is None:
            route = state.shown.ours(None).route(Kind.TOOLS, tool)
            if route is None or not scope.has(route[0]):
                return None
            server, tool = route
        entry, item = state.views.named(server, None), state.catalog_of(server).tool(tool)
        if entry is None or item is None:
            return None
        shown = state.filter_within(scope, entry)
        return item.input_schema() if shown.shows(item) else None

    @property
    def memory(self) -> Memory:
        """What is kept for all clients and servers; what is kept outside counts there, too."""
        return self.context.memory

    def session_count(self) -> int:
        """Return how many sessions there are, on every endpoint."""
        return sum(session.is_session for session in self._state.sessions.values())

    def owes(self, session: SessionId) -> bool:
        """Tell whether a connection has requests that have no answer yet."""
        found = self._state.sessions.get(session)
        return found is not None and bool(found.requests)

    def workspace_of(self, session: SessionId) -> str | None:
        """Return the workspace that a connection is from, as far as it is known."""
        found = self._state.sessions.get(session)
        return None if found is None else found.workspace

    def named(self, name: str, session: SessionId) -> str:
        """Return the name of the server that a connection means; the same if there is none."""
        found = self._state.views.named(name, self.workspace_of(session))
        return name if found is None else found.name

    def in_flight_count(self) -> int:
        """Return how many requests of clients have no answer from their servers yet."""
        return sum(upstream.calls.load() for upstream in self._state.all_upstreams())

    def table_sizes(self) -> dict[str, int]:
        """Return how much each table holds: with nobody there and nothing under way, nothing."""
        sessions = self._state.sessions.values()
        upstreams = self._state.all_upstreams()
        return {
            "sessions": len(sessions),
            "owed": sum(len(session.requests) for session in sessions),
            "streams": sum(len(session.streams) for session in sessions),
            "listens": sum(len(session.listens) for session in sessions),
            "in_flight": sum(len(upstream.calls.unfinished()) for upstream in upstreams),
            "queued": sum(upstream.calls.queued() for upstream in upstreams),
            "users": sum(len(upstream.calls.usage.users) for upstream in upstreams),
            "subscriptions": sum(len(upstream.subscriptions) for upstream in upstreams),
            "checks": len(self._admission),
            "approvals": len(self.approvals.questions),
            "questions": len(self._open_questions),
            "asked": len(self._questions.to_clients),
            "paused": sum(len(upstream.calls.timeouts) for upstream in upstreams),
            "parked": len(self._parked_calls),
            "rounds": len(self._input_rounds),
            "examined": len(self._state.definitions.examinations),
            "cleaned": len(self._server_messages.results),
        }

    def _hold(self, event: events.UserStop) -> None:
        if event.failure is None:
            self._state.held.pop(event.server, None)
        else:
            self._state.held[event.server] = event.failure
        if event.server not in self._state.entries:
            self.context.tell(ServerWarning(event.server, "held, and in no configuration"))
