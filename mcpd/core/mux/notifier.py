"""Passes notifications of servers on to the sessions that they are for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.facts import Failure, ServerLogged
from mcpd.core.mcp import modern
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.methods import LEVELS
from mcpd.core.questions.parked_calls import ParkedCalls
from mcpd.core.questions.questions import Questions
from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.lists import Lists
from mcpd.core.upstream.subscriptions import Topic
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope, progress
from mcpd.ids import SessionId
from mcpd.principal import EVERYTHING

_LOG_LENGTH: Final = 2000  # characters of a log message for no session that are kept


class Notifier:
    """Passes on list changes, resource updates, log messages and questions."""

    def __init__(self, state: MuxState, questions: Questions, parked: ParkedCalls) -> None:
        self._state = state
        self._questions = questions
        self._parked_calls = parked
        self.reconsider: Callable[[Upstream], None] = _nothing_waits
        """Decides again about what waits for a process."""

    def list_judged(self, upstream: Upstream) -> None:
        """Decide again about what waits for a process of which a list has come."""
        self.reconsider(upstream)

    def lists_kept(self, upstream: Upstream) -> None:
        """Keep what a process listed; sessions without a process of this server are shown that."""
        state = self._state
        state.remember(upstream)
        for name in self._names_of(upstream):
            state.shown.forget(name)

    def list_changed(
        self, upstream: Upstream, kind: Kind, *, everybody: bool, lists: Lists | None = None
    ) -> None:
        """A list is another one; without ``everybody`` only for those who were answered without.

        ``lists`` are those of which it is one, ``None`` for the lists of all clients.
        """
        for session in self._reached(upstream):
            if (everybody or kind in session.incomplete) and (
                lists is None or upstream.client_lists.shown(self._client(session), kind) is lists
            ):
                session.incomplete.discard(kind)
                self.tell_change(session, kind)

    def _reached(self, upstream: Upstream) -> list[Session]:
        """Return the sessions that are shown the lists of a process."""
        names = self._names_of(upstream)
        return [
            session
            for session in self._state.sessions.values()
            if (
                self._is_own(session, upstream)
                if session.server is not None
                else session.is_session and self._is_in_aggregate(session, upstream, names)
            )
        ]

    def _client(self, session: Session) -> ClientInfo:
        """Return who a session's client is, as servers are told."""
        speaker = session.speaker()
        return speaker if session.server is not None else modern.without_tasks(speaker)

    def process_ready(self, upstream: Upstream) -> None:
        """Read what sessions were answered without, or may be told otherwise, to tell them of it.

        Of a process only the tools are read at its start, and as they are listed for us.
        """
        reached = [(session, self._client(session)) for session in self._reached(upstream)]
        upstream.client_lists.verify(
            {lists for _, client in reached if (lists := upstream.client_lists.get(client))}
        )
        for session, client in reached:
            for kind in Kind:
                if kind in session.incomplete:
                    lists = upstream.client_lists.of(client)
                    if lists.catalog.get(kind) is None:
                        lists.read(kind, partial(self._announce, upstream, kind, lists))

    def _announce(
        self,
        upstream: Upstream,
        kind: Kind,
        lists: Lists,
        listing: Listing | None,
        failure: Failure | None,
    ) -> None:
        if listing is not None and len(listing):
            self.list_changed(upstream, kind, everybody=False, lists=lists)

    def tell_change(self, session: Session, kind: Kind) -> None:
        """Send one notice, and one to each listen, not more than one each quarter of a second."""
        if session.is_initialized:
            state, method = self._state, kind.notification
            session.changes.tell(state.ctx, method, partial(session.notify, method, None))
        for listener in session.listens.values():
            if listener.hears(kind):
                listener.tell_change(kind)

    def resource_updated(self, upstream: Upstream, topic: Topic, params: Raw) -> None:
        """An update goes to the subscribers of a resource or a parent of it, or of a task."""
        for who in upstream.subscriptions.subscribers(topic):
            ident, key = who if isinstance(who, tuple) else (who, None)
            session = self._session(ident)
            if session is None or self._is_outside(session, upstream, topic):
                continue
            if key is not None:
                listener = session.listens.get(key)
                if listener is not None:
                    listener.tell_update(topic, params)
            else:
                session.notify("notifications/resources/updated", params)

    def _is_outside(self, session: Session, upstream: Upstream, topic: Topic | None = None) -> bool:
        """Tell whether a server, or a resource of it, is no part of a session's scope any more.

        A profile that is edited narrows sessions that have subscribed, or use a process, already.
        """
        scope = self._state.scope_of(session.principal)
        if scope is EVERYTHING:
            return False
        entry = self._state.entries.get(session.uses(upstream) or upstream.entry.name)
        if entry is None or not scope.has(entry.shown_name):
            return True
        return isinstance(topic, str) and scope.lacks("resources")

    def log(self, upstream: Upstream, params: Raw) -> None:
        """A log message goes to the one session in flight, or if none is to all that want it.

        A moment after a call that is its session alone: the message may tell of the call.
        A modern server, and for a modern client, logs for requests alone.
        """
        found = envelope.params_of(params)
        level = (envelope.text(found.level) if found is not None else None) or "info"
        flying = upstream.calls.inflight.owners()
        given_up = upstream.calls.gate.possible() if len(flying) < 2 else ()
        owners = flying | {leg.owner for leg in given_up}
        lately = set() if owners else upstream.calls.inflight.ended_lately(self._state.ctx.now)
        is_for_none = len(owners) > 1 or len(lately) > 1 or (not owners and upstream.is_modern)
        if is_for_none or (lately and not any(map(self._hears_logs, lately))):
            text = upstream.entry.redactor.excerpt(params, _LOG_LENGTH)
            self._state.ctx.tell(ServerLogged(upstream.entry.name, level, text))
            return
        for ident in owners or lately or sorted(upstream.calls.usage.users):
            session = self._session(ident)
            if session is not None and self._wants_log(session, upstream, level, bool(owners)):
                name = session.uses(upstream)
                is_named = session.server is None and name is not None
                told = self._from(name, params) if is_named and name is not None else params
                session.notify_always("notifications/message", told, _request_of(upstream, session))

    def _hears_logs(self, ident: int) -> bool:
        """Tell whether a session gets log messages that belong to no request."""
        session = self._session(SessionId(ident))
        return session is not None and session.is_initialized

    def _wants_log(
        self, session: Session, upstream: Upstream, level: str, is_in_flight: bool
    ) -> bool:
        """Tell whether a message is for a session, of whatever is in flight for it, if anything."""
        if not is_in_flight:
            is_heard = session.is_initialized and session.wants_log(level)
            return is_heard and not self._is_outside(session, upstream)
        flying = upstream.calls.inflight.of(session.id)
        if session.is_initialized and any(
            p.client_info is not None and not p.is_modern for p in flying
        ):
            is_asked = session.level is not None or not upstream.is_modern
            return is_asked and session.wants_log(level)
        is_parked = self._parked_calls.is_parked
        return any(
            leg.is_modern
            and leg.client_info is not None
            and leg.client_info.level is not None
            and _reaches(level, leg.client_info.level)
            and not is_parked(leg)  # its request is answered
            for leg in flying
        )

    def process_gone(self, upstream: Upstream) -> None:
        """Drop what the process has asked: it has ended."""
        self._questions.server_gone(upstream)

    def _from(self, server: str, params: Raw) -> bytes:
        """Return a log message whose logger begins with the name of its server."""
        entry = self._state.entries.get(server)
        shown = server if entry is None else entry.shown_name
        members = envelope.object_of(params) or {}
        logger = envelope.text(members.get("logger", UNSET))
        name = f"{shown}/{logger}" if logger else shown
        return progress.with_member(params, "logger", envelope.quote(name))

    def _session(self, ident: int) -> Session | None:
        return self._state.sessions.get(SessionId(ident))

    def _names_of(self, upstream: Upstream) -> list[str]:
        launch = upstream.entry.launch
        return [e.name for e in self._state.entries.values() if e.launch == launch]

    def _is_own(self, session: Session, upstream: Upstream) -> bool:
        """Tell whether a session on a server's own endpoint uses this process of it."""
        used = session.upstreams.get(session.server or "")
        if used is not None:
            return used is upstream
        entry = self._state.entries.get(session.server or "")
        return entry is not None and upstream.slot == entry.launch

    def _is_in_aggregate(self, session: Session, upstream: Upstream, names: list[str]) -> bool:
        known = self._state.views.of(session.workspace)
        scope = self._state.scope_of(session.principal)
        names = [name for name in names if name in known and scope.has(known[name].shown_name)]
        own = [session.upstreams[name] for name in names if name in session.upstreams]
        if own and upstream not in own:
            return False  # it has a process of its own, and this is another
        entries = self._state.entries
        return any(entries[name].is_listed for name in names)


def _request_of(upstream: Upstream, session: Session) -> bytes:
    """Return the key of the newest request of a session in flight at a process, or nothing.

    A legacy server does not say which request a log message is of. The newest is the likeliest.
    """
    in_flight = list(upstream.calls.inflight.of(session.id))
    return in_flight[-1].key if in_flight else b""


def _reaches(level: str, least: str) -> bool:
    return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(least)


def _nothing_waits(upstream: Upstream) -> None:
    raise AssertionError(f"nothing decides about what waits for {upstream.slot} yet")
