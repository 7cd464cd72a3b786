"""Who gets which message: events and the time go in, commands come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from mcpd.core.catalog.model import Kind
from mcpd.core.downstream.admission import Admission
from mcpd.core.downstream.client_subscriptions import DRAINING, ClientSubscriptions
from mcpd.core.downstream.control import ControlRequests
from mcpd.core.downstream.forwarding import Forwarding
from mcpd.core.downstream.lingering import Lingering
from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.downstream.recovery import Recovery
from mcpd.core.downstream.request_router import RequestRouter
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.facts import Failure, ServerWarning, SessionClosed
from mcpd.core.interface import events
from mcpd.core.interface.commands import (
    Command,
    ToSession,
)
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry, Settings
from mcpd.core.mux.client_messages import ClientMessages
from mcpd.core.mux.notifier import Notifier
from mcpd.core.mux.report import EntryReport, SessionReport, report, sessions
from mcpd.core.mux.server_messages import ServerMessages
from mcpd.core.questions.input_rounds import InputRounds
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.question import OpenQuestions
from mcpd.core.questions.questions import Questions
from mcpd.core.questions.roots import Roots
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Memory, Share
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Right

_NOTICES = (Kind.TOOLS, Kind.PROMPTS, Kind.RESOURCES)  # templates share theirs with resources
_FILTERED = (Kind.TOOLS,)


class Mux:
    """Many clients of many servers. It never blocks and never raises for what a peer did."""

    def __init__(
        self, settings: Settings, *, suggest: Callable[[str, Iterable[str]], list[str]]
    ) -> None:
        self.context = Context(settings, suggest)
        """Its ``soonest`` spares whoever drives us a look at the next deadline."""
        self._state = state = MuxState(self.context)
        # a client's questions: of legacy servers, of modern ones, and parked calls
        self._open_questions = OpenQuestions()
        self._parked_calls = ParkedCalls(state, self._open_questions)
        self._questions = asked = Questions(state, self._open_questions, self._parked_calls)
        # processes
        self._notifier = Notifier(state, asked, self._parked_calls)
        self._slots = slots = Slots(state, self._notifier)
        # what clients and people ask
        served = ListRequests(state, slots)
        self._settings = SessionSettings(state, slots, served)
        self._admission = admission = Admission(state, slots, self._settings)
        self._client_subscriptions = ClientSubscriptions(state, slots, served)
        forward = Forwarding(state, slots, admission, served=served, parked=self._parked_calls)
        self._client_messages = ClientMessages(
            state,
            downstream=RequestRouter(
                state,
                slots,
                served=served,
                settings=self._settings,
                forward=forward,
                listens=self._client_subscriptions,
            ),
            settings=self._settings,
            listens=self._client_subscriptions,
            parked=self._parked_calls,
            asked=asked,
        )
        self._control = ControlRequests(state, slots, admission, served)
        self._lingering = Lingering(state)
        self._recovery = Recovery(state, served)
        # what servers send
        self._input_rounds = InputRounds(state, asked, self._parked_calls, admission.send)
        self._server_messages = ServerMessages(
            self.context,
            asked=asked,
            roots=Roots(state, self._open_questions, asked),
            rounds=self._input_rounds,
            notifier=self._notifier,
        )

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
            case events.SessionOpened():
                share = Share(self.context.memory)
                opened = Session(
                    self.context,
                    event.session,
                    event.principal,
                    share,
                    in_reserve=event.in_reserve,
                )
                self._state.sessions[event.session] = opened
            case events.LeftReserve():
                session = self._state.sessions.get(event.session)
                if session is not None:
                    session.in_reserve = False
            case events.InputEnded():
                session = self._state.sessions.get(event.session)
                if session is not None:
                    self._end_input(session)
            case events.SessionClosed():
                self._close_session(event)
            case events.ServerUp():
                upstream = self._state.upstreams.get(event.slot)
                if upstream is not None:
                    upstream.up()
            case events.ServerDown():
                upstream = self._state.at(event.slot)
                if upstream is not None:
                    upstream.down(
                        event.failure,
                        is_planned=event.is_planned,
                        comes_back=event.comes_back and event.slot in self._state.upstreams,
                    )
                    if not event.comes_back:
                        self._recovery.lost(upstream)
                        self._slots.tidy(upstream)
            case events.WriteRefused():
                upstream = self._state.at(event.slot)
                if upstream is not None:
                    upstream.calls.unwritten.refuse(event.wire_id, is_gone=event.is_gone)
            case events.ProbeRead():
                upstream = self._state.at(event.slot)
                if upstream is not None:
                    upstream.probe_read()
            case events.EntriesChanged():
                self._configure(event.entries)
            case events.UserStop():
                self._hold(event)
            case events.StartUnasked():
                entry = self._state.entries.get(event.server)
                if entry is not None and entry.unavailable is None:
                    self._slots.control_upstream(entry)
            case events.Attach():
                self._attach(event)
            case events.WorkspaceKnown():
                session = self._state.sessions.get(event.session)
                if session is not None and not session.is_session:
                    session.workspace = event.workspace
            case events.CallTool():
                self._control.call(event)
            case events.ListItems():
                self._control.lists(event)
            case events.ReadResource():
                self._control.read(event)
            case events.GetPrompt():
                self._control.prompt(event)
            case events.ControlDone():
                self._control_done(event)
            case events.Validated():
                self._admission.validated(event)
            case events.Draining():
                self._client_messages.is_draining = True
                self._client_subscriptions.end_all()
            case events.Farewell():
                self._say_farewell()
            case _:
                assert_never(event)
        if self._lingering.sessions:
            self._lingering.look()
        return commands

    def next_deadline(self) -> float | None:
        """Return when a ``Tick`` is due, in monotonic seconds; ``None`` while nothing is."""
        return self.context.next_deadline()

    def report(self, name: str) -> EntryReport:
        """Return what there is to say of a configured server."""
        return report(self._state, name)

    def is_unused(self, slot: SlotId) -> bool:
        """Tell whether nothing is under way at a place: no request, and no question."""
        upstream = self._state.at(slot)
        return upstream is None or not (
            upstream.calls.load() or self._open_questions.is_asking(upstream)
        )

    def sessions(self) -> list[SessionReport]:
        """Return the sessions on every endpoint."""
        return sessions(self._state)

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
            "questions": len(self._open_questions),
            "asked": len(self._questions.to_clients),
            "paused": sum(len(upstream.calls.timeouts) for upstream in upstreams),
            "parked": len(self._parked_calls),
            "rounds": len(self._input_rounds),
        }

    # -- sessions come and go --------------------------------------------------------------------

    def _attach(self, event: events.Attach) -> None:
        session = self._state.sessions.get(event.session)
        request = session.requests.get(event.key) if session is not None else None
        if session is None or request is None:
            return
        if self._client_messages.is_draining:
            request.refuse(DRAINING)
            return
        if session.in_reserve:
            self._client_messages.refuse_session(request)
            return
        if session.is_session:
            why = "this connection is a session already: attach comes first, and once"
            request.refuse(Failure("invalid_message", why))
            return
        if event.server is not None:
            entry = self._state.entry(event.server)
            if isinstance(entry, Failure) and entry.kind != "server_stopped":
                request.refuse(entry)
                return
        session.server = event.server
        session.client, session.client_pid = event.client, event.client_pid
        session.workspace = event.workspace
        session.roots = event.roots
        if not event.may_control:
            session.principal = session.principal.without(Right.CONTROL)
        session.wants_farewell = event.wants_farewell
        self._state.open_session(session)
        entry_now = self._state.entries.get(event.server or "")
        if entry_now is not None and entry_now.unavailable is None:
            self._slots.upstream_for(session, entry_now)
        server = b"null" if event.server is None else envelope.quote(event.server)
        request.reply(b'{"session":%d,"server":%b}' % (session.id, server))

    def _end_input(self, session: Session) -> None:
        """Ask the client nothing more, and end its session once all its requests have an answer."""
        session.has_ended = True
        self._questions.input_ended(session)
        self._lingering.begin(session)

    def _close_session(self, event: events.SessionClosed) -> None:
        session = self._state.sessions.get(event.session)
        if session is None:
            return
        self._lingering.forget(session)
        for request in session.requests.values():
            if request.batch is not None:
                request.batch.drop()
                request.batch = None  # there is nobody to take the rest of its answers
        self._questions.to_clients.session_gone(
            session
        )  # nothing is withdrawn from who is not there
        # what waits first, the newest before the others: it must not be sent because something
        # else of the session, a call or a question, has made room for it
        given_up = [*reversed(session.requests.values())]
        self._cancel_all(session, [o.key for o in given_up if not _is_in_flight(o)])
        self._questions.session_gone(session)
        self._parked_calls.session_gone(session)
        self._client_subscriptions.session_gone(session)
        self._cancel_all(session, [*(o.key for o in given_up), *session.streams])
        self._settings.session_gone(session)
        del self._state.sessions[event.session]
        session.changes.stop()
        used = list(dict.fromkeys(session.upstreams.values()))
        for name in list(session.upstreams):
            self._slots.leave(session, name)
        if session.level is not None:
            for upstream in used:
                if upstream.slot in self._state.upstreams:
                    self._settings.apply_levels(upstream)
        if session.is_session:
            self.context.tell(
                SessionClosed(session.id, session.server, event.reason, session.label)
            )

    def _cancel_all(self, session: Session, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._client_messages.cancel(session, key, b'"its client is gone"')

    def _say_farewell(self) -> None:
        """Tell those who asked for it that nothing of theirs is under way.

        What they have sent and got no answer to was not read, so they may send it to another
        daemon. A process cannot say this: of its notices only those that MCP has are passed on.
        """
        line = envelope.notification(b'"mcpd/farewell"', None)
        for session in self._state.sessions.values():
            if session.wants_farewell and not session.requests:
                self.context.emit(ToSession(session.id, line))

    def _control_done(self, event: events.ControlDone) -> None:
        session = self._state.sessions.get(event.session)
        request = session.requests.get(event.key) if session is not None else None
        if session is None or request is None:
            return
        if event.failure is not None:
            request.refuse(event.failure)
            return
        request.reply(event.result or b"{}")
        if event.is_stream:
            session.streams.add(event.key)

    # -- the configuration -----------------------------------------------------------------------

    def _configure(self, entries: Iterable[Entry]) -> None:
        state = self._state
        before, state.entries = state.entries, {entry.name: entry for entry in entries}
        state.configure_aggregate()
        for name in list(state.held):
            old, new = before.get(name), state.entries.get(name)
            if old is None or new is None or old.launch != new.launch:
                state.held.pop(name, None)
        launches = {e.launch: e for e in reversed([*state.entries.values()]) if not e.unavailable}
        gone = [u for u in state.upstreams.values() if not state.is_wanted(u)]
        for upstream in state.upstreams.values():
            upstream.calls.configure(launches.get(upstream.entry.launch, upstream.entry))
        for session in list(state.sessions.values()):
            self._move(session, gone)
        self._client_subscriptions.configured(gone)
        gone += [u for u in state.upstreams.values() if u not in gone and state.is_abandoned(u)]
        for upstream in gone:
            for leg in self._slots.retire(upstream, "its entry was changed or removed"):
                self._admission.send(leg)
        self._tell_changes(before)
        self._slots.forget_strangers()

    def _move(self, session: Session, gone: list[Upstream]) -> None:
        """Take a session from processes that go to those that take their place."""
        for name, upstream in list(session.upstreams.items()):
            entry = self._state.entries.get(name)
            if upstream not in gone and (
                entry is None
                or entry.unavailable is not None
                or self._state.is_right(upstream, session, entry)
            ):
                continue
            wanted = [uri for uri, server in session.subscribed.items() if server == name]
            if entry is None or entry.unavailable is not None:
                session.upstreams.pop(name)
                upstream.calls.usage.users.discard(session.id)
                upstream.subscriptions.leave(session.id, is_up=False)
                continue
            new = self._slots.upstream_for(session, entry)
            if session.uses(upstream) is None:
                upstream.calls.usage.users.discard(session.id)
                is_up = upstream.is_ready and upstream not in gone
                upstream.subscriptions.leave(session.id, is_up=is_up)
                upstream.calls.usage.mark_idle()
            for uri in wanted:
                new.subscriptions.add(uri, session.id, _nothing, is_up=new.is_ready)
            if wanted and name not in self._state.held:
                new.calls.start_wait.when_ready(_nobody)
            if session.levels():  # of modern requests too, which move with it
                self._settings.apply_levels(new)

    def _tell_changes(self, before: dict[str, Entry]) -> None:
        """Sessions learn of lists that a filter or another server changed."""
        state = self._state
        if not before:
            return
        changed = {
            name
            for name in {*before, *state.entries}
            if _as_listed(before.get(name)) != _as_listed(state.entries.get(name))
        }
        if not changed and _listed(before) == _listed(state.entries):
            return
        # a filter is of tools; another process, or another order, may be of everything
        after = state.entries
        others = {name for name in changed if _launch(before, name) != _launch(after, name)}
        is_other = bool(others) or _listed(before) != _listed(after)
        for session in state.sessions.values():
            name = session.server
            if not session.is_session or (name is not None and name not in changed):
                continue
            for kind in _NOTICES if is_other and (name is None or name in others) else _FILTERED:
                if name is None or self._had(before.get(name), kind):
                    self._notifier.tell_change(session, kind)

    def _had(self, before: Entry | None, kind: Kind) -> bool:
        """Tell whether a server's sessions can have been told that it has this list."""
        said = self._state.memory.get(before.launch) if before is not None else None
        return said is None or said[0] is None or said[0].has(kind.capability)

    def _hold(self, event: events.UserStop) -> None:
        if event.failure is None:
            self._state.held.pop(event.server, None)
        else:
            self._state.held[event.server] = event.failure
        if event.server not in self._state.entries:
            self.context.tell(ServerWarning(event.server, "held, and in no configuration"))


def _is_in_flight(request: ClientRequest) -> bool:
    return request.leg is not None and request.leg.is_written


def _nobody(failure: object) -> None:
    """Nobody waits for a process that a subscription needs."""


def _nothing(error: object, failure: object) -> None:
    """Nobody waits for a subscription that is renewed."""


def _listed(entries: dict[str, Entry]) -> list[str]:
    return [name for name, entry in entries.items() if _as_listed(entry) is not None]


def _launch(entries: dict[str, Entry], name: str) -> str | None:
    entry = entries.get(name)
    return entry.launch if entry is not None and _as_listed(entry) is not None else None


def _as_listed(entry: Entry | None) -> object:
    if entry is None or entry.unavailable is not None or not entry.is_listed:
        return None
    return (entry.launch, entry.filter)
