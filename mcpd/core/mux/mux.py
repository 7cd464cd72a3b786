"""Who gets which message: events and the time go in, commands come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from msgspec import UNSET

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure, FrameRejected, ServerWarning, SessionClosed
from mcpd.core.mcp import codes
from mcpd.core.mcp.versions import HAS_BATCHES
from mcpd.core.mux import events
from mcpd.core.mux.audience import Hearers
from mcpd.core.mux.batch import Batch
from mcpd.core.mux.commands import (
    CloseSession,
    Command,
    Control,
    ControlCancelled,
    SessionElements,
    ToSession,
)
from mcpd.core.mux.control import ControlDesk
from mcpd.core.mux.downstream import Downstream
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Entry, Settings
from mcpd.core.mux.failures import no_room, too_large, too_many
from mcpd.core.mux.lingering import Lingering
from mcpd.core.mux.listens import DRAINING, Listens
from mcpd.core.mux.parked import Parked
from mcpd.core.mux.questions import Questions
from mcpd.core.mux.recovery import Recovery
from mcpd.core.mux.report import EntryReport, SessionReport, report, sessions
from mcpd.core.mux.rounds import Rounds
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.core.wire.memory import Memory, Share
from mcpd.ids import SessionId, SlotId

_CONTROL = "mcpd/"
NO_SESSION = "all connections for sessions are taken; this one is for control requests alone"
_NOTICES = (Kind.TOOLS, Kind.PROMPTS, Kind.RESOURCES)  # templates share theirs with resources
_FILTERED = (Kind.TOOLS,)


class Mux:
    """Many clients of many servers. It never blocks and never raises for what a peer did."""

    def __init__(
        self, settings: Settings, *, suggest: Callable[[str, Iterable[str]], list[str]]
    ) -> None:
        self.effects = Effects(settings, suggest)
        """Its ``soonest`` spares whoever drives us a look at the next deadline."""
        self._tables = Tables(self.effects)
        self._questions = Questions(self._tables)
        self._parked = Parked(self._tables, self._questions)
        self._listens = Listens(self._tables)
        self._is_draining = False
        self._rounds = Rounds(self._tables, self._questions)
        self._hearers = Hearers(self._tables, self._questions, self._rounds, self._listens)
        self._tables.audience = self._hearers
        self._desk = ControlDesk(self._tables)
        self._downstream = Downstream(
            self._tables, self._desk.check, listens=self._listens, parked=self._parked
        )
        self._desk.downstream = self._downstream
        self._lingering = Lingering(self._tables)
        self._recovery = Recovery(self._tables, self._downstream.served.unlisted)

    def said_instead(self, slot: SlotId) -> str:
        """Return the end of an error: what a process that is not ready wrote that is no message."""
        upstream = self._tables.at(slot)
        return "" if upstream is None else upstream.requests.while_starting()

    def handle(self, event: events.Event, now: float) -> list[Command]:
        """React to one event. Never blocks and never raises for what a peer did.

        ``now`` is monotonic seconds; two calls may pass the same value.
        """
        fx = self.effects
        fx.now = now
        commands: list[Command] = []
        fx.commands = commands
        match event:
            case events.FrameFromSession():
                session = self._tables.sessions.get(event.session)
                if session is not None:
                    batch = session.batch
                    self._hear_session(session, event.frame, batch)
                    if batch is not None and batch.read():
                        session.batch = None
            case events.FrameFromServer():
                upstream = self._tables.at(event.slot)
                if upstream is not None:
                    upstream.hear(event.frame)
            case events.Tick():
                fx.run_due()
            case events.SessionOpened():
                share = Share(self.effects.memory)
                opened = Session(event.session, share, in_reserve=event.in_reserve)
                self._tables.sessions[event.session] = opened
            case events.Admitted():
                session = self._tables.sessions.get(event.session)
                if session is not None:
                    session.in_reserve = False
            case events.InputEnded():
                session = self._tables.sessions.get(event.session)
                if session is not None:
                    self._end_input(session)
            case events.SessionClosed():
                self._close_session(event)
            case events.ServerUp():
                upstream = self._tables.upstreams.get(event.slot)
                if upstream is not None:
                    upstream.up()
            case events.ServerDown():
                upstream = self._tables.at(event.slot)
                if upstream is not None:
                    upstream.down(
                        event.failure,
                        is_planned=event.is_planned,
                        comes_back=event.comes_back and event.slot in self._tables.upstreams,
                    )
                    if not event.comes_back:
                        self._recovery.lost(upstream)
                        self._tables.tidy(upstream)
            case events.WriteRefused():
                upstream = self._tables.at(event.slot)
                if upstream is not None:
                    upstream.requests.refuse_write(event.wire_id, is_gone=event.is_gone)
            case events.ProbeRead():
                upstream = self._tables.at(event.slot)
                if upstream is not None:
                    upstream.probe_read()
            case events.EntriesChanged():
                self._configure(event.entries)
            case events.Hold():
                self._hold(event)
            case events.Reserve():
                entry = self._tables.entries.get(event.server)
                if entry is not None and entry.unavailable is None:
                    self._tables.control_upstream(entry)
            case events.Attach():
                self._attach(event)
            case events.Locate():
                session = self._tables.sessions.get(event.session)
                if session is not None and not session.is_session:
                    session.workspace = event.workspace
            case events.CallTool():
                self._desk.call(event)
            case events.ListItems():
                self._desk.lists(event)
            case events.ReadResource():
                self._desk.read(event)
            case events.GetPrompt():
                self._desk.prompt(event)
            case events.ControlDone():
                self._control_done(event)
            case events.Validated():
                self._desk.validated(event)
            case events.Draining():
                self._is_draining = True
                self._listens.end_all()
            case events.Farewell():
                self._say_farewell()
            case _:
                assert_never(event)
        if self._lingering.sessions:
            self._lingering.look()
        return commands

    def next_deadline(self) -> float | None:
        """Return when a ``Tick`` is due, in monotonic seconds; ``None`` while nothing is."""
        return self.effects.next_deadline()

    def report(self, name: str) -> EntryReport:
        """Return what there is to say of a configured server."""
        return report(self._tables, name)

    def is_unused(self, slot: SlotId) -> bool:
        """Tell whether nothing is under way at a place: no request, and no question."""
        upstream = self._tables.at(slot)
        return upstream is None or not (
            upstream.requests.load() or self._questions.is_asking(upstream)
        )

    def sessions(self) -> list[SessionReport]:
        """Return the sessions on every endpoint."""
        return sessions(self._tables)

    @property
    def memory(self) -> Memory:
        """What is kept for all clients and servers; what is kept outside counts there, too."""
        return self.effects.memory

    def session_count(self) -> int:
        """Return how many sessions there are, on every endpoint."""
        return sum(session.is_session for session in self._tables.sessions.values())

    def owes(self, session: SessionId) -> bool:
        """Tell whether a connection is owed an answer."""
        found = self._tables.sessions.get(session)
        return found is not None and bool(found.owed)

    def in_flight_count(self) -> int:
        """Return how many requests of clients are owed an answer."""
        return sum(upstream.requests.load() for upstream in self._tables.places())

    def table_sizes(self) -> dict[str, int]:
        """Return how much each table holds: with nobody there and nothing under way, nothing."""
        sessions = self._tables.sessions.values()
        upstreams = self._tables.places()
        return {
            "sessions": len(sessions),
            "owed": sum(len(session.owed) for session in sessions),
            "streams": sum(len(session.streams) for session in sessions),
            "listens": sum(len(session.listens) for session in sessions),
            "in_flight": sum(len(upstream.requests.in_flight()) for upstream in upstreams),
            "queued": sum(upstream.requests.queued() for upstream in upstreams),
            "users": sum(len(upstream.requests.users) for upstream in upstreams),
            "subscriptions": sum(len(upstream.subscriptions) for upstream in upstreams),
            "checks": len(self._desk),
            "questions": len(self._questions),
            "asked": len(self._questions.asking),
            "paused": len(self._questions.pauses),
            "parked": len(self._parked),
            "rounds": len(self._rounds),
        }

    # -- what sessions send ----------------------------------------------------------------------

    def _hear_session(
        self, session: Session, frame: Frame | Oversized, batch: Batch | None = None
    ) -> None:
        if isinstance(frame, Oversized):
            self._refuse_oversized(session, frame)
            return
        try:
            message = envelope.decode(frame)
        except envelope.Malformed as problem:
            if batch is None and problem.elements and session.version == HAS_BATCHES:
                self._begin_batch(session, problem.elements)
                return
            if self._spoil_answer(session, frame[:4096], frame[-4096:], problem.reason):
                return
            code = codes.INVALID_REQUEST if problem.is_json else codes.PARSE_ERROR
            self._refuse_frame(session, problem.id, code, problem.reason, batch)
            return
        if message.id is UNSET:
            if message.method is not UNSET:
                if message.jsonrpc == "2.0":
                    self._hear_notification(session, str(message.method), message.params)
            elif message.result is UNSET and message.error is UNSET:
                why = "not a JSON-RPC message"
                self._refuse_frame(session, None, codes.INVALID_REQUEST, why, batch)
            return
        ident = bytes(message.id)
        if message.method is UNSET:
            if message.result is UNSET and message.error is UNSET:
                usable = ident if envelope.is_id(ident) else None
                why = "a request needs a method"
                self._refuse_frame(session, usable, codes.INVALID_REQUEST, why, batch)
            else:
                self._questions.hear_answer(session, message)
            return
        if not envelope.is_id(ident):
            why = f"id must be a string or an integer of at most {envelope.ID_BYTES} bytes"
            self._refuse_frame(session, None, codes.INVALID_REQUEST, why, batch)
            return
        if message.jsonrpc != "2.0":
            why = 'jsonrpc must be "2.0"'
            self._refuse_frame(session, ident, codes.INVALID_REQUEST, why, batch)
            return
        method = str(message.method)
        self._hear_request(session, ident, method, message.params, len(frame), batch)

    def _begin_batch(self, session: Session, elements: list[bytes]) -> None:
        """Have the messages of an array brought one by one; its answers go out as one array."""
        emit = self.effects.emit

        def send(line: bytes) -> None:
            emit(ToSession(session.id, line))

        session.batch = Batch(send, session.share, len(elements))
        emit(SessionElements(session.id, elements))

    def _hear_request(
        self,
        session: Session,
        ident: bytes,
        method: str,
        params: envelope.Bytes,
        size: int,
        batch: Batch | None,
    ) -> None:
        key = envelope.id_key(ident)
        if key in session.owed or key in session.streams or key in session.listens:
            why = "a request with this id is in flight already"
            self._refuse_frame(session, ident, codes.INVALID_REQUEST, why, batch)
            return
        if batch is not None and method == "initialize":
            why = "initialize must not be part of a batch"
            self._refuse_frame(session, ident, codes.INVALID_REQUEST, why, batch)
            return
        owed = Owed(ident, key)
        if batch is not None:
            owed.batch = batch
            batch.expect()
        most = self.effects.settings.max_in_flight
        share = session.share
        if share.count + len(session.streams) >= most and not (
            params is not UNSET and self._parked.is_retry(session, params)
        ):
            why = "requests of this session are in flight"
            self._tables.refuse(session, owed, too_many(why, most, "in_flight"))
            return
        if not owed.enter(share, size):
            self._tables.refuse(session, owed, no_room(share, size))
            return
        session.owed[key] = owed
        if not method.startswith(_CONTROL):
            if not session.is_session:
                if session.in_reserve:
                    self._refuse_session(session, owed)
                    return
                self._tables.open_session(session)
            if self._is_draining and method != "ping":  # else there would be no end to it
                self._tables.refuse(session, owed, DRAINING)
            else:
                self._downstream.request(session, owed, method, params)
        elif not session.may_control:
            failure = Failure("unknown_method", f"unknown method {method!r}")
            self._tables.refuse(session, owed, failure)
        else:
            owed.is_control = True
            raw = None if params is UNSET else bytes(params)
            self.effects.emit(Control(session.id, key, method, raw))

    def _refuse_session(self, session: Session, owed: Owed) -> None:
        """Refuse what only a session may ask, and end a connection that cannot become one."""
        hint = "mcpctl status shows who is there"
        self._tables.refuse(session, owed, Failure("rate_limited", NO_SESSION, None, True, hint))
        self.effects.emit(CloseSession(session.id, NO_SESSION))

    def _hear_notification(self, session: Session, method: str, params: envelope.Bytes) -> None:
        if method == "notifications/progress":
            if params is not UNSET:
                self._questions.hear_progress(session, params)
        elif method == "notifications/roots/list_changed":
            self._downstream.wishes.roots_changed(session)
        elif method == "notifications/initialized":
            session.said_initialized = session.is_opening
            session.is_initialized = session.version is not None and not session.is_opening
        elif method == "notifications/cancelled" and params is not UNSET:
            found = envelope.params_of(params)
            if found is not None and found.request_id is not UNSET:
                ident = bytes(found.request_id)
                if envelope.is_id(ident):
                    why = None if found.reason is UNSET else bytes(found.reason)
                    self._cancel(session, envelope.id_key(ident), why)

    def _cancel(self, session: Session, key: bytes, reason: bytes | None) -> None:
        if self._listens.cancel(session, key):
            return
        if key in session.streams:
            session.streams.discard(key)
            self.effects.emit(ControlCancelled(session.id, key))
            return
        owed = session.owed.get(key)
        if owed is None:
            return
        pending = owed.pending
        self._tables.drop(session, owed)
        if pending is not None and pending.upstream is not None:
            pending.upstream.cancel(pending, reason)
        elif owed.is_control:
            self.effects.emit(ControlCancelled(session.id, key))

    def _spoil_answer(self, session: Session, head: Frame, tail: Frame, why: str) -> bool:
        """Tell whether a frame that cannot be taken is an answer: its id is not of the client's."""
        ident = envelope.find_id(bytes(head), bytes(tail), of_answer=True)
        if ident is None or not head.lstrip().startswith(b"{"):
            return False
        self.effects.tell(FrameRejected(session.id, why))
        self._questions.spoil_answer(session, ident)
        return True

    def _refuse_oversized(self, session: Session, frame: Oversized) -> None:
        limit = self.effects.settings.max_request_bytes
        why = f"an answer of {frame.size_bytes} bytes is larger than max_request_bytes"
        if self._spoil_answer(session, frame.head, frame.tail, why):
            return
        failure = too_large("", limit)
        failure = Failure(failure.kind, failure.message, None, False, failure.hint, failure.details)
        ident = envelope.find_id(frame.head, frame.tail)
        self._send_error(session, ident, codes.error_object(failure))

    def _refuse_frame(
        self,
        session: Session,
        ident: bytes | None,
        code: int,
        reason: str,
        batch: Batch | None = None,
    ) -> None:
        self.effects.tell(FrameRejected(session.id, reason))
        failure = Failure("invalid_message", reason)
        self._send_error(session, ident, codes.error_object(failure, code), batch)

    def _send_error(
        self, session: Session, ident: bytes | None, error: bytes, batch: Batch | None = None
    ) -> None:
        if ident is None and not session.may_omit_id:
            ident = b"null"
        line = envelope.error(ident, error)
        if batch is None:
            self.effects.emit(ToSession(session.id, line))
        else:
            batch.take(line)

    # -- sessions come and go --------------------------------------------------------------------

    def _attach(self, event: events.Attach) -> None:
        session = self._tables.sessions.get(event.session)
        owed = session.owed.get(event.key) if session is not None else None
        if session is None or owed is None:
            return
        if self._is_draining:
            self._tables.refuse(session, owed, DRAINING)
            return
        if session.in_reserve:
            self._refuse_session(session, owed)
            return
        if session.is_session:
            why = "this connection is a session already: attach comes first, and once"
            self._tables.refuse(session, owed, Failure("invalid_message", why))
            return
        if event.server is not None:
            entry = self._tables.entry(event.server)
            if isinstance(entry, Failure) and entry.kind != "server_stopped":
                self._tables.refuse(session, owed, entry)
                return
        session.server = event.server
        session.client, session.pid = event.client, event.pid
        session.workspace = event.workspace
        session.roots = event.roots
        session.may_control = event.may_control
        session.wants_farewell = event.wants_farewell
        self._tables.open_session(session)
        entry_now = self._tables.entries.get(event.server or "")
        if entry_now is not None and entry_now.unavailable is None:
            self._tables.upstream_for(session, entry_now)
        server = b"null" if event.server is None else envelope.quote(event.server)
        self._tables.reply(session, owed, b'{"session":%d,"server":%b}' % (session.id, server))

    def _end_input(self, session: Session) -> None:
        """Ask the client nothing more, and end its session when it has got what it is owed."""
        session.has_ended = True
        self._questions.input_ended(session)
        self._lingering.begin(session)

    def _close_session(self, event: events.SessionClosed) -> None:
        session = self._tables.sessions.get(event.session)
        if session is None:
            return
        self._lingering.forget(session)
        for owed in session.owed.values():
            if owed.batch is not None:
                owed.batch.drop()
                owed.batch = None  # there is nobody to take the rest of its answers
        self._questions.asking.session_gone(session)  # nothing is withdrawn from who is not there
        # what waits first, the newest before the others: it must not be sent because something
        # else of the session, a call or a question, has made room for it
        given_up = [*reversed(session.owed.values())]
        self._cancel_all(session, [o.key for o in given_up if not _is_in_flight(o)])
        self._questions.session_gone(session)
        self._parked.session_gone(session)
        self._listens.session_gone(session)
        self._cancel_all(session, [*(o.key for o in given_up), *session.streams])
        self._downstream.wishes.session_gone(session)
        del self._tables.sessions[event.session]
        session.changes.stop()
        used = list(dict.fromkeys(session.upstreams.values()))
        for name in list(session.upstreams):
            self._tables.leave(session, name)
        if session.level is not None:
            for upstream in used:
                if upstream.slot in self._tables.upstreams:
                    self._downstream.wishes.apply_levels(upstream)
        if session.is_session:
            self.effects.tell(
                SessionClosed(session.id, session.server, event.reason, session.label)
            )

    def _cancel_all(self, session: Session, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._cancel(session, key, b'"its client is gone"')

    def _say_farewell(self) -> None:
        """Tell those who asked for it that nothing of theirs is under way.

        What they have sent and got no answer to was not read, so they may send it to another
        daemon. A process cannot say this: of its notices only those that MCP has are passed on.
        """
        line = envelope.notification(b'"mcpd/farewell"', None)
        for session in self._tables.sessions.values():
            if session.wants_farewell and not session.owed:
                self.effects.emit(ToSession(session.id, line))

    def _control_done(self, event: events.ControlDone) -> None:
        session = self._tables.sessions.get(event.session)
        owed = session.owed.get(event.key) if session is not None else None
        if session is None or owed is None:
            return
        if event.failure is not None:
            self._tables.refuse(session, owed, event.failure)
            return
        self._tables.reply(session, owed, event.result or b"{}")
        if event.is_stream:
            session.streams.add(event.key)

    # -- the configuration -----------------------------------------------------------------------

    def _configure(self, entries: Iterable[Entry]) -> None:
        tables = self._tables
        before, tables.entries = tables.entries, {entry.name: entry for entry in entries}
        tables.configure_aggregate()
        for name in list(tables.held):
            old, new = before.get(name), tables.entries.get(name)
            if old is None or new is None or old.launch != new.launch:
                tables.held.pop(name, None)
        launches = {e.launch: e for e in reversed([*tables.entries.values()]) if not e.unavailable}
        gone = [u for u in tables.upstreams.values() if not tables.is_wanted(u)]
        for upstream in tables.upstreams.values():
            upstream.requests.configure(launches.get(upstream.entry.launch, upstream.entry))
        for session in list(tables.sessions.values()):
            self._move(session, gone)
        self._listens.configured(gone)
        gone += [u for u in tables.upstreams.values() if u not in gone and tables.is_abandoned(u)]
        for upstream in gone:
            tables.retire(upstream, "its entry was changed or removed")
        self._tell_changes(before)
        tables.forget_strangers()

    def _move(self, session: Session, gone: list[Upstream]) -> None:
        """Take a session from processes that go to those that take their place."""
        for name, upstream in list(session.upstreams.items()):
            entry = self._tables.entries.get(name)
            if upstream not in gone and (
                entry is None
                or entry.unavailable is not None
                or self._tables.is_right(upstream, session, entry)
            ):
                continue
            wanted = [uri for uri, server in session.subscribed.items() if server == name]
            if entry is None or entry.unavailable is not None:
                session.upstreams.pop(name)
                upstream.requests.users.discard(session.id)
                upstream.subscriptions.leave(session.id, is_up=False)
                continue
            new = self._tables.upstream_for(session, entry)
            if session.uses(upstream) is None:
                upstream.requests.users.discard(session.id)
                is_up = upstream.is_ready and upstream not in gone
                upstream.subscriptions.leave(session.id, is_up=is_up)
                upstream.requests.mark_idle()
            for uri in wanted:
                new.subscriptions.add(uri, session.id, _nothing, is_up=new.is_ready)
            if wanted and name not in self._tables.held:
                new.requests.when_ready(_nobody)
            if session.levels():  # of modern requests too, which move with it
                self._downstream.wishes.apply_levels(new)

    def _tell_changes(self, before: dict[str, Entry]) -> None:
        """Sessions learn of lists that a filter or another server changed."""
        tables = self._tables
        if not before:
            return
        changed = {
            name
            for name in {*before, *tables.entries}
            if _as_listed(before.get(name)) != _as_listed(tables.entries.get(name))
        }
        if not changed and _listed(before) == _listed(tables.entries):
            return
        # a filter is of tools; another process, or another order, may be of everything
        after = tables.entries
        others = {name for name in changed if _launch(before, name) != _launch(after, name)}
        is_other = bool(others) or _listed(before) != _listed(after)
        for session in tables.sessions.values():
            name = session.server
            if not session.is_session or (name is not None and name not in changed):
                continue
            for kind in _NOTICES if is_other and (name is None or name in others) else _FILTERED:
                if name is None or self._had(before.get(name), kind):
                    self._hearers.tell_change(session, kind)

    def _had(self, before: Entry | None, kind: Kind) -> bool:
        """Tell whether a server's sessions can have been told that it has this list."""
        said = self._tables.memory.get(before.launch) if before is not None else None
        return said is None or said[0] is None or said[0].has(kind.capability)

    def _hold(self, event: events.Hold) -> None:
        if event.failure is None:
            self._tables.held.pop(event.server, None)
        else:
            self._tables.held[event.server] = event.failure
        if event.server not in self._tables.entries:
            self.effects.tell(ServerWarning(event.server, "held, and in no configuration"))


def _is_in_flight(owed: Owed) -> bool:
    return owed.pending is not None and owed.pending.is_written


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
