"""Connections of clients: opened, attached to a server, ended by either side, and closed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec import Raw

from mcpd.core.approvals.approvals import Approvals
from mcpd.core.downstream import nothing_to_offer
from mcpd.core.downstream.client_subscriptions import DRAINING, ClientSubscriptions
from mcpd.core.downstream.lingering import Lingering
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.facts import Failure, SessionClosed
from mcpd.core.interface import events
from mcpd.core.interface.commands import SessionState, ToSession
from mcpd.core.mcp import translation
from mcpd.core.mux.client_messages import ClientMessages
from mcpd.core.mux.notifier import Notifier
from mcpd.core.mux.reconfiguration import NOTICES, ignore_outcome, ignore_start
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.questions import Questions
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import Share
from mcpd.principal import Right

ConnectionEvent = (
    events.SessionOpened
    | events.LeftReserve
    | events.Attach
    | events.Join
    | events.Release
    | events.WorkspaceKnown
    | events.ControlDone
    | events.InputEnded
    | events.SessionClosed
)
"""What happens to one connection, but for what its client writes."""


class Connections:
    """Makes a session of each connection, and takes back what it has when it is closed."""

    def __init__(
        self,
        state: MuxState,
        slots: Slots,
        *,
        messages: ClientMessages,
        settings: SessionSettings,
        listens: ClientSubscriptions,
        questions: Questions,
        parked: ParkedCalls,
        lingering: Lingering,
        notifier: Notifier,
        approvals: Approvals,
    ) -> None:
        self._state = state
        self._slots = slots
        self._messages = messages
        self._settings = settings
        self._listens = listens
        self._questions = questions
        self._parked_calls = parked
        self._lingering = lingering
        self._notifier = notifier
        self._approvals = approvals

    def handle(self, event: ConnectionEvent) -> None:
        """React to an event of a connection; harmless if the connection is closed."""
        if isinstance(event, events.SessionOpened):
            self._open(event)
            return
        session = self._state.sessions.get(event.session)
        if session is None:
            return
        match event:
            case events.LeftReserve():
                session.in_reserve = False
            case events.Attach():
                self._attach(session, event)
            case events.Join():
                self._join(session, event)
            case events.Release():
                self._lingering.release(session)
            case events.WorkspaceKnown():
                if not session.is_session:
                    session.workspace = event.workspace
            case events.ControlDone():
                self._control_done(session, event)
            case events.InputEnded():
                self._end_input(session)
            case events.SessionClosed():
                self._close(session, event)
            case _:
                assert_never(event)

    def _open(self, event: events.SessionOpened) -> None:
        ctx, share = self._state.ctx, Share(self._state.ctx.memory)
        self._state.sessions[event.session] = Session(
            ctx, event.session, event.principal, share, in_reserve=event.in_reserve
        )

    def _attach(self, session: Session, event: events.Attach) -> None:
        request = session.requests.get(event.key)
        if request is None:
            return
        if self._messages.is_draining:
            request.refuse(DRAINING)
            return
        if session.in_reserve:
            self._messages.refuse_session(request)
            return
        if session.is_session:
            why = "this connection is a session already: attach comes first, and once"
            request.refuse(Failure("invalid_message", why))
            return
        principal = session.principal
        if event.profile is not None:
            if event.profile not in self._state.policy.profiles:
                near = self._state.ctx.suggest(event.profile, self._state.policy.profiles)
                hint = (
                    f"did you mean {' or '.join(near)}?"
                    if near
                    else "see [profiles] in docs/trust.md"
                )
                why = f"there is no profile {event.profile!r}"
                request.refuse(Failure("invalid_params", why, None, False, hint))
                return
            principal = principal.in_profile(event.profile)
        name = None
        if event.server is not None:
            scope = self._state.scope_of(principal)
            found = self._state.views.named(event.server, event.workspace)
            if found is None or not scope.has(found.shown_name):
                unknown = self._state.not_found(event.server, scope, event.workspace)
                request.refuse(unknown)
                return
            name = found.name
            entry = self._state.entry(name)
            if isinstance(entry, Failure) and entry.kind != "server_stopped":
                request.refuse(entry)
                return
        session.principal = principal
        session.server = name
        session.client, session.client_pid = event.client, event.client_pid
        session.attached = event.client
        session.workspace = event.workspace
        session.roots = event.roots
        if not event.may_control:
            session.principal = session.principal.without(Right.CONTROL)
        session.wants_farewell = event.wants_farewell
        self._state.open_session(session)
        entry_now = self._state.entries.get(name or "")
        if entry_now is not None and entry_now.unavailable is None:
            self._slots.upstream_for(session, entry_now)
        server = b"null" if name is None else envelope.quote(name)
        result = b'{"session":%d,"server":%b' % (session.id, server)
        if name is None:
            notice = nothing_to_offer.notice(self._state, session)
            result += b"" if notice is None else b',"notice":%b' % envelope.quote(notice)
        request.reply(result + b"}")

    def _join(self, session: Session, event: events.Join) -> None:
        """Make a connection a session, and take up again what it was before."""
        if session.is_session:
            return
        state = self._state
        session.server = event.server
        session.is_kept, session.is_brief = event.is_kept, event.is_brief
        state.open_session(session)
        if event.state is not None:
            self._take_up(session, event.state)
        entry = state.entries.get(event.server or "")
        if entry is not None and entry.unavailable is None and not event.is_brief:
            upstream = self._slots.upstream_for(session, entry)
            if session.level is not None:
                self._settings.apply_levels(upstream)
        if event.is_stale:
            for kind in NOTICES:
                if entry is None or state.may_have_listed(entry, kind):
                    self._notifier.tell_change(session, kind)

    def _take_up(self, session: Session, before: SessionState) -> None:
        session.version, session.level = before.version, before.level
        session.is_initialized = before.is_initialized
        capabilities = envelope.object_of(Raw(before.capabilities)) or {}
        info = None if before.info is None else Raw(before.info)
        session.client_info = translation.legacy_client_info(capabilities, info, before.level)
        self._state.introduce(session, session.client_info)
        for uri, server in before.subscribed:
            entry = self._state.entry(server)
            if isinstance(entry, Failure) or not session.may_follow(1):
                continue
            if session.share.take(uri.__sizeof__()):
                session.subscribed[uri] = server
                upstream = self._slots.upstream_for(session, entry)
                upstream.subscriptions.add(uri, session.id, ignore_outcome, is_up=upstream.is_ready)
                upstream.calls.start_wait.when_ready(ignore_start)

    def _control_done(self, session: Session, event: events.ControlDone) -> None:
        request = session.requests.get(event.key)
        if request is None:
            return
        if event.failure is not None:
            request.refuse(event.failure)
            return
        if isinstance(event.result, tuple):
            request.reply_in_parts(event.result)
        else:
            request.reply(event.result or b"{}")
        if event.is_stream:
            session.streams.add(event.key)

    def _end_input(self, session: Session) -> None:
        """Ask the client nothing more, and end its session once all its requests have an answer."""
        session.has_ended = True
        self._questions.input_ended(session)
        self._lingering.begin(session)

    def _close(self, session: Session, event: events.SessionClosed) -> None:
        self._lingering.forget(session)
        for request in session.requests.values():
            if request.batch is not None:
                request.batch.drop()
                request.batch = None  # the rest of its answers can be sent nowhere
        # its client is not there: nothing is withdrawn from it
        self._questions.to_clients.session_gone(session)
        # what waits first, the newest before the others: it must not be sent because something
        # else of the session, a call or a question, has made room for it
        given_up = [*reversed(session.requests.values())]
        self._cancel_all(session, self._approvals.behind(session.id))
        self._cancel_all(session, [o.key for o in given_up if not _is_in_flight(o)])
        self._questions.session_gone(session)
        self._parked_calls.session_gone(session)
        self._listens.session_gone(session)
        self._cancel_all(session, [*(o.key for o in given_up), *session.streams])
        self._settings.session_gone(session)
        self._approvals.session_gone(session.id)
        del self._state.sessions[event.session]
        session.changes.stop()
        used = list(dict.fromkeys(session.upstreams.values()))
        for name in list(session.upstreams):
            self._slots.leave(session, name)
        if session.level is not None:
            for upstream in used:
                if upstream.slot in self._state.upstreams:
                    self._settings.apply_levels(upstream)
        if session.is_session and not session.is_brief:
            who = session.label, session.principal.label
            closed = SessionClosed(session.id, session.server, event.reason, *who)
            self._state.ctx.tell(closed)

    def _cancel_all(self, session: Session, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._messages.cancel(session, key, b'"its client is gone"')

    def say_farewell(self) -> None:
        """Notify the clients that asked for it that none of their requests is under way.

        What they have sent and got no answer to was not read, so they may send it to another
        daemon. A server cannot send this: only the notifications that MCP has are passed on.
        """
        line = envelope.notification(b'"mcpd/farewell"', None)
        for session in self._state.sessions.values():
            if session.wants_farewell and not session.requests:
                self._state.ctx.emit(ToSession(session.id, line))


def _is_in_flight(request: ClientRequest) -> bool:
    return request.leg is not None and request.leg.is_written
