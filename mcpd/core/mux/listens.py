"""What modern clients listen to: opened, acknowledged, kept over restarts, ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure
from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mux.commands import ToSession
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.failures import MOST_FOLLOWED, too_many_followed
from mcpd.core.mux.following import Following
from mcpd.core.mux.listener import Listener
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.subscriptions import Task, Topic, Topics
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope

Owners = Callable[[Session, Listener, tuple[str, ...], Callable[[Mapping[str, Entry]], None]], None]
"""Finds the servers that resources of the aggregate belong to, and leaves out what has none."""

DRAINING: Final = Failure(
    "draining",
    "the daemon is about to end",
    is_retryable=True,
    hint="connect again, and repeat it: the next daemon takes it",
)
"""What a request gets that comes while the daemon is on its way out: nothing was done about it."""

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_UPDATED: Final = "notifications/resources/updated"
_TASKS: Final = "notifications/tasks"


class Listens:
    """A client's listen is ours: no server knows of it, nor ends it.

    It is no request in flight, and keeps no server running. Its client hears of nothing before
    the acknowledgement, and of everything that was to be told meanwhile right after it.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._following = Following(tables, self._followed)
        self._is_draining = False

    def open(self, session: Session, owed: Owed, params: Raw, owners: Owners) -> None:
        """Take a ``subscriptions/listen``; it is acknowledged once its resources are followed."""
        tables = self._tables
        if self._is_draining:  # nobody would end it
            tables.refuse(session, owed, DRAINING)
            return
        try:
            wanted = modern.read_listen(params)
        except ValueError as problem:
            tables.reject(session, owed, codes.INVALID_PARAMS, str(problem))
            return
        if wanted.tasks and not _has_tasks(owed):
            why = f"taskIds needs the extension {modern.TASKS} in the client's capabilities"
            data: dict[str, object] = {"requiredCapabilities": {"extensions": {modern.TASKS: {}}}}
            error = codes.plain_error(codes.MISSING_CAPABILITY, why, data)
            tables.pass_error(session, owed, error)
            return
        followed = len(wanted.uris) + len(wanted.tasks)
        if not session.may_follow(followed):
            tables.refuse(session, owed, too_many_followed())
            return
        session.followed += followed
        listener = Listener(owed.ident, owed.key, wanted, owed.keep())
        tables.drop(session, owed)
        session.listens[owed.key] = listener
        if session.server is None:
            self._open_on_aggregate(session, listener, owners)
        else:
            self._open_on_server(session, listener, session.server)

    def cancel(self, session: Session, key: bytes) -> bool:
        """End a listen that its client has given up; tell whether there was one."""
        listener = session.listens.pop(key, None)
        if listener is None:
            return False
        session.followed -= len(listener.wanted.uris) + len(listener.wanted.tasks)
        listener.changes.stop()
        if listener.leave is not None:
            listener.leave()
        self._following.end(session, listener)
        listener.kept.release()
        return True

    def session_gone(self, session: Session) -> None:
        """Nobody hears any more."""
        for key in list(session.listens):
            self.cancel(session, key)

    def end_all(self) -> None:
        """The daemon is about to end, and every listen with it."""
        self._is_draining = True
        for session in self._tables.sessions.values():
            self._end(session, DRAINING)

    def configured(self, gone: list[Upstream]) -> None:
        """Entries are others now, and the places of some are about to be retired."""
        entries = self._tables.entries
        for session in self._tables.sessions.values():
            if session.server is not None and session.server not in entries:
                self._end(session, self._tables.not_found(session.server))
            for listener in list(session.listens.values()):
                for topic in list(listener.owners):
                    if session.listens.get(listener.key) is listener:  # not refused by now
                        self._following.move(session, listener, topic, gone)

    # -- what listeners are told -----------------------------------------------------------------

    def tell_change(self, session: Session, kind: Kind) -> None:
        """Tell those listens of a session that are for it that a list is another one."""
        for listener in session.listens.values():
            if listener.hears(kind):
                self._tell_change(session, listener, kind)

    def tell_update(self, session: Session, key: bytes, topic: Topic, params: Raw) -> None:
        """Tell one listen of a session that a resource or a task that it follows has changed."""
        listener = session.listens.get(key)
        if listener is None:
            return
        if listener.is_acknowledged:
            told = modern.tagged(params, listener.ident)
            method = _TASKS if isinstance(topic, Task) else _UPDATED
            self._tables.notify_modern(session, method, told)
        else:
            missed = listener.missed_updates
            before = missed.get(topic, b"")
            if len(missed) < MOST_FOLLOWED and listener.kept.grow(len(params) - len(before)):
                missed[topic] = params

    def _tell_change(self, session: Session, listener: Listener, kind: Kind) -> None:
        if not listener.is_acknowledged:
            listener.missed_changes[kind] = None
            return

        def send() -> None:
            told = modern.tagged(None, listener.ident)
            self._tables.notify_modern(session, kind.notification, told)

        listener.changes.tell(self._tables.fx, kind.notification, send)

    # -- opening ---------------------------------------------------------------------------------

    def _open_on_server(self, session: Session, listener: Listener, server: str) -> None:
        tables, wanted = self._tables, listener.wanted
        entry = tables.entry(server)
        known = self._introduction(session, server)
        topics = () if known is None else _topics(wanted, known)
        if isinstance(entry, Failure):
            if entry.kind != "server_stopped" or known is None or topics:
                self._refuse(session, listener, entry)
                return
        elif known is None:
            self._open_when_introduced(session, listener, entry)
            return
        listener.honoured = modern.Listen(
            tools=wanted.tools and known.has("tools"),
            prompts=wanted.prompts and known.has("prompts"),
            resources=wanted.resources and known.has("resources"),
        )
        owners = {} if isinstance(entry, Failure) else dict.fromkeys(topics, entry)
        self._follow(session, listener, owners)

    def _open_when_introduced(self, session: Session, listener: Listener, entry: Entry) -> None:
        place = self._following.place(session, entry)

        def ready(failure: Failure | None) -> None:
            if session.listens.get(listener.key) is not listener:
                return
            if failure is None or self._tables.has_left(place):
                self._open_on_server(session, listener, entry.name)
            else:
                self._refuse(session, listener, failure)

        self._tables.when_ready(listener, place, ready)

    def _open_on_aggregate(self, session: Session, listener: Listener, owners: Owners) -> None:
        wanted = listener.wanted
        listener.honoured = msgspec.structs.replace(wanted, uris=(), tasks=())

        def found(owners: Mapping[str, Entry]) -> None:
            if session.listens.get(listener.key) is listener:
                followed: dict[Topic, Entry] = {
                    uri: entry for uri, entry in owners.items() if self._has_updates(session, entry)
                }
                self._follow(session, listener, followed)

        if wanted.uris:
            owners(session, listener, wanted.uris, found)
        else:
            self._acknowledge(session, listener)

    def _introduction(self, session: Session, server: str) -> Introduction | None:
        own = session.upstreams.get(server)
        known = own.introduction if own is not None else None
        return known or self._tables.introduction_of(server)

    def _has_updates(self, session: Session, entry: Entry) -> bool:
        known = self._introduction(session, entry.name)
        return known is None or known.has("resources", "subscribe")

    def _follow(self, session: Session, listener: Listener, owners: Mapping[Topic, Entry]) -> None:
        if not owners:
            self._acknowledge(session, listener)
            return
        listener.awaited.update(owners)
        for topic, entry in owners.items():
            if session.listens.get(listener.key) is not listener:
                return  # refused: its server does not come
            self._following.begin(session, listener, topic, entry)

    def _followed(
        self,
        session: Session,
        listener: Listener,
        topic: Topic,
        error: Raw | bytes | None,
        failure: Failure | None,
    ) -> None:
        """Go on once a server has said whether something can be followed."""
        if failure is not None and session.server is not None:
            self._refuse(session, listener, failure)
            return
        if error is not None or failure is not None:
            listener.owners.pop(topic, None)
            listener.places.pop(topic, None)
        listener.awaited.discard(topic)
        if not listener.awaited:
            self._acknowledge(session, listener)

    def _acknowledge(self, session: Session, listener: Listener) -> None:
        wanted, owners = listener.wanted, listener.owners
        uris = tuple(uri for uri in wanted.uris if uri in owners)
        tasks = tuple(ident for ident in wanted.tasks if Task(ident) in owners)
        listener.honoured = msgspec.structs.replace(listener.honoured, uris=uris, tasks=tasks)
        listener.is_acknowledged = True
        params = modern.acknowledged(listener.ident, listener.honoured)
        line = envelope.notification(envelope.quote(_ACKNOWLEDGED), params)
        self._tables.fx.emit(ToSession(session.id, line))  # a slow client loses others, not this
        changes, listener.missed_changes = listener.missed_changes, {}
        for kind in changes:
            self._tell_change(session, listener, kind)
        updates, listener.missed_updates = listener.missed_updates, {}
        listener.kept.add(-sum(map(len, updates.values())))
        if updates:
            followed = Topics()
            for own in owners:
                followed.add(own)
        for topic, told in updates.items():
            if topic in owners or any(followed.parents(topic)):  # else it was refused meanwhile
                self.tell_update(session, listener.key, topic, told)

    def _refuse(self, session: Session, listener: Listener, failure: Failure) -> None:
        self.cancel(session, listener.key)
        self._tables.refuse(session, Owed(listener.ident, listener.key), failure)

    # -- the end -----------------------------------------------------------------------------------

    def _end(self, session: Session, failure: Failure) -> None:
        for listener in list(session.listens.values()):
            if listener.is_acknowledged:
                self.cancel(session, listener.key)
                owed = Owed(listener.ident, listener.key)
                result = modern.listen_result(listener.ident, is_draining=self._is_draining)
                self._tables.reply(session, owed, result)
            else:
                self._refuse(session, listener, failure)


def _topics(wanted: modern.Listen, known: Introduction) -> tuple[Topic, ...]:
    """Return what a server can be asked to tell of."""
    uris = wanted.uris if known.has("resources", "subscribe") else ()
    tasks = wanted.tasks if modern.has_tasks(known) else ()
    return (*uris, *(Task(ident) for ident in tasks))


def _has_tasks(owed: Owed) -> bool:
    capabilities = b"{}" if owed.asker is None else owed.asker.capabilities
    extensions = (envelope.object_of(capabilities) or {}).get("extensions", Raw(b"{}"))
    return modern.TASKS in (envelope.object_of(extensions) or {})
