"""What servers say unasked, to those whom it concerns and to nobody else."""

from __future__ import annotations

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import ServerLogged
from mcpd.core.mux import progress
from mcpd.core.mux.questions import Questions
from mcpd.core.mux.session import Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

CHANGES_EVERY = 0.25
"""Seconds between two notices of one kind to one session."""


class Hearers:
    """Passes on list changes, resource updates, log messages and questions."""

    def __init__(self, tables: Tables, questions: Questions) -> None:
        self._tables = tables
        self._questions = questions

    def heard_change(self, upstream: Upstream, kind: Kind, *, everybody: bool) -> None:
        """A list is another one; without ``everybody`` only the aggregate had none before."""
        tables = self._tables
        names = self._names_of(upstream)
        for name in names:
            tables.aggregate.forget(name, kind)
        if upstream.introduction is not None:
            tables.memory[upstream.entry.launch] = upstream.known()
        for session in tables.sessions.values():
            own = session.server is not None
            if (own and everybody and session.upstreams.get(session.server or "") is upstream) or (
                not own and session.is_session and self._is_in_aggregate(session, upstream, names)
            ):
                self.tell_change(session, kind)

    def tell_change(self, session: Session, kind: Kind) -> None:
        """Send one notice, not more than one each quarter of a second."""
        method = kind.notification
        if not session.is_initialized or method in session.change_timers:
            return
        fx = self._tables.fx
        wait = session.changed_at.get(method, -CHANGES_EVERY) + CHANGES_EVERY - fx.now

        def tell() -> None:
            session.change_timers.pop(method, None)
            session.changed_at[method] = fx.now
            self._tables.notify(session, method, None)

        if wait <= 0:
            tell()
        else:
            session.change_timers[method] = fx.after(wait, tell)

    def heard_update(self, upstream: Upstream, uri: str, params: Raw) -> None:
        """An update goes to the subscribers of the URI, or of a parent of it."""
        for ident in upstream.subscriptions.subscribers(uri):
            session = self._session(ident)
            if session is not None:
                self._tables.notify(session, "notifications/resources/updated", params)

    def heard_log(self, upstream: Upstream, params: Raw) -> None:
        """A log message goes to the one session in flight, or if none is to all that want it."""
        found = envelope.params_of(params)
        level = envelope.text(found.level) if found is not None else None
        owners = upstream.requests.owners_in_flight()
        if len(owners) > 1:
            text = bytes(params).decode("utf-8", "replace")[:2000]
            self._tables.fx.tell(ServerLogged(upstream.entry.name, level or "info", text))
            return
        for ident in owners or sorted(upstream.requests.users):
            session = self._session(ident)
            if session is None or not session.wants_log(level or "info"):
                continue
            name = session.uses(upstream)
            if session.server is None and name is not None:
                self._tables.notify(session, "notifications/message", _from(name, params))
            else:
                self._tables.notify(session, "notifications/message", params)

    def heard_question(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        """A question goes to the only session it can be for."""
        self._questions.ask(upstream, ident, method, params)

    def heard_withdrawal(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""
        self._questions.withdraw(upstream, ident)

    def heard_end(self, upstream: Upstream) -> None:
        """The process is gone, with whatever it wanted to know."""
        self._questions.server_gone(upstream)

    def _session(self, ident: int) -> Session | None:
        return self._tables.sessions.get(SessionId(ident))

    def _names_of(self, upstream: Upstream) -> list[str]:
        launch = upstream.entry.launch
        return [e.name for e in self._tables.entries.values() if e.launch == launch]

    def _is_in_aggregate(self, session: Session, upstream: Upstream, names: list[str]) -> bool:
        own = [session.upstreams[name] for name in names if name in session.upstreams]
        if own and upstream not in own:
            return False  # it has a process of its own, and this is another
        entries = self._tables.entries
        return any(entries[name].is_listed for name in names)


def _from(server: str, params: Raw) -> bytes:
    members = envelope.object_of(params) or {}
    logger = envelope.text(members.get("logger", UNSET))
    name = f"{server}/{logger}" if logger else server
    return progress.with_member(params, "logger", envelope.quote(name))
