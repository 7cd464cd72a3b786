"""What a legacy session wants to hear: its log level, its resource subscriptions, its roots."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.mcp import codes
from mcpd.core.mcp.methods import LEVELS, Method, Route
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.failures import no_room, too_many_followed
from mcpd.core.mux.served import Served
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream, most_verbose
from mcpd.core.wire import envelope
from mcpd.core.wire.envelope import Params
from mcpd.ids import SessionId


class Wishes:
    """Brings a process to what its sessions want together."""

    def __init__(self, tables: Tables, served: Served) -> None:
        self._tables = tables
        self._served = served

    def set_level(self, session: Session, owed: Owed, found: Params) -> None:
        """Answer ``logging/setLevel`` once the process knows it."""
        level = envelope.text(found.level)
        if level not in LEVELS:
            why = f"level must be one of {', '.join(LEVELS)}"
            self._tables.reject(session, owed, codes.INVALID_PARAMS, why)
            return
        if session.server is None:
            session.level = level
            session.asker = msgspec.structs.replace(session.asker, level=level)
            for upstream in session.upstreams.values():
                self.apply_levels(upstream)
            self._tables.reply(session, owed, b"{}")
            return
        entry = self._tables.entry(session.server)
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
            return
        if not self._served.has(entry.name, "logging"):
            why = f"{entry.name} has no logging"
            self._tables.reject(session, owed, codes.METHOD_NOT_FOUND, why)
            return
        before, session.level = session.level, level
        session.asker = msgspec.structs.replace(session.asker, level=level)

        def applied(error: Raw | bytes | None) -> None:
            owed.leave = None
            if session.owed.get(owed.key) is not owed:
                return
            if error is not None:
                if session.level == level:  # else it has asked for another since
                    session.level = before
                    session.asker = msgspec.structs.replace(session.asker, level=before)
                self._tables.pass_error(session, owed, error)
            else:
                self._tables.reply(session, owed, b"{}")

        upstream = self._tables.upstream_for(session, entry)
        owed.leave = lambda: upstream.wait_for_no_level(applied)
        self.apply_levels(upstream, applied)

    def apply_levels(
        self, upstream: Upstream, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set a process to the most verbose level that any of its sessions wants."""
        sessions = (
            self._tables.sessions.get(SessionId(ident)) for ident in upstream.requests.users
        )
        wanted = most_verbose([level for s in sessions if s is not None for level in s.levels()])
        known = upstream.introduction
        if wanted is None or (known is not None and not known.has("logging")):
            if then is not None:
                then(None)
            return
        upstream.set_level(wanted, then)

    def subscribe(self, session: Session, owed: Owed, rule: Method, found: Params) -> None:
        """Answer ``resources/subscribe`` and ``resources/unsubscribe``."""
        uri = envelope.text(found.uri)
        if uri is None:
            self._tables.reject(session, owed, codes.INVALID_PARAMS, "uri must be a string")
            return
        if rule.route is Route.UNSUBSCRIBE:
            server = self._forget(session, uri)
            upstream = session.upstreams.get(server or "")
            if upstream is not None:
                upstream.subscriptions.remove(uri, session.id, is_up=upstream.is_ready)
            self._tables.reply(session, owed, b"{}")
            return
        if session.server is None:
            self._served.by_uri(
                session, owed, uri, lambda entry: self._subscribe_at(session, owed, entry, uri)
            )
            return
        entry = self._tables.entry(session.server)
        if isinstance(entry, Failure):
            self._tables.refuse(session, owed, entry)
        elif not self._served.has(entry.name, "resources", "subscribe"):
            why = f"{entry.name} has no subscriptions to resources"
            self._tables.reject(session, owed, codes.METHOD_NOT_FOUND, why)
        else:
            self._subscribe_at(session, owed, entry, uri)

    def _subscribe_at(self, session: Session, owed: Owed, entry: Entry, uri: str) -> None:
        if uri not in session.subscribed:
            if not session.may_follow(1):
                self._tables.refuse(session, owed, too_many_followed())
                return
            if not session.share.take(uri.__sizeof__()):
                failure = no_room(session.share, len(uri), server=entry.name)
                self._tables.refuse(session, owed, failure)
                return
        upstream = self._tables.upstream_for(session, entry)
        kept = owed.keep()  # who gives it up is subscribed all the same

        def subscribed(error: Raw | bytes | None, failure: Failure | None) -> None:
            kept.release()
            if error is not None or failure is not None:
                self._forget(session, uri)
            if session.owed.get(owed.key) is not owed:
                return
            if error is not None:
                self._tables.pass_error(session, owed, error)
            elif failure is not None:
                self._tables.refuse(session, owed, failure)
            else:
                self._tables.reply(session, owed, b"{}")

        session.subscribed[uri] = entry.name
        upstream.subscriptions.add(uri, session.id, subscribed, is_up=upstream.is_ready)
        if not upstream.is_ready:
            upstream.requests.when_ready(_nobody)

    def _forget(self, session: Session, uri: str) -> str | None:
        """Forget a subscription of a session; return the server that it was to."""
        server = session.subscribed.pop(uri, None)
        if server is not None:
            session.share.add(-uri.__sizeof__())
        return server

    def session_gone(self, session: Session) -> None:
        """Forget the subscriptions of a session."""
        for uri in list(session.subscribed):
            self._forget(session, uri)

    def roots_changed(self, session: Session) -> None:
        """A client has other roots: a process of its own that asks for them is told."""
        for name, upstream in session.upstreams.items():
            entry = self._tables.entries.get(name)
            if entry is not None and entry.asks_for_roots and upstream.is_ready:
                upstream.notify(b'"notifications/roots/list_changed"')


def _nobody(failure: Failure | None) -> None:
    """Nobody waits for the process: it is told what is wanted as soon as it is there."""
