"""What modern clients listen to: opened, acknowledged, kept over restarts, ended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.downstream.resource_owners import ResourceOwners
from mcpd.core.downstream.topic_subscriptions import TopicSubscriptions
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.failures import too_many_followed
from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.introduction import TASKS_EXTENSION, Introduction
from mcpd.core.mcp.listen import Listen, listen_result, read_listen
from mcpd.core.state.client_subscription import ClientSubscription
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import Waiting
from mcpd.core.upstream.subscriptions import Task, Topic
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope

DRAINING: Final = Failure(
    "draining",
    "the daemon is about to end",
    is_retryable=True,
    hint="connect again, and repeat it: the next daemon takes it",
)
"""What a request gets that comes while the daemon is on its way out: nothing was done about it."""


class ClientSubscriptions:
    """A client's listen is ours: no server knows of it, nor ends it.

    It is no request in flight, and keeps no server running. Its client gets no notification before
    the acknowledgement, and of all that has changed by then right after it.
    """

    def __init__(self, state: MuxState, slots: Slots, owners: ResourceOwners) -> None:
        self._state = state
        self._resource_owners = owners
        self._following = TopicSubscriptions(state, slots, self._followed)
        self._is_draining = False

    def open(self, request: ClientRequest) -> None:
        """Take a ``subscriptions/listen``; it is acknowledged once its resources are followed."""
        state, session, key = self._state, request.session, request.key
        if self._is_draining:  # nobody would end it
            request.refuse(DRAINING)
            return
        try:
            wanted = read_listen(request.params or Raw(b"{}"))
        except ValueError as problem:
            request.reject(codes.INVALID_PARAMS, str(problem))
            return
        if wanted.tasks and not _has_tasks(request):
            why = f"taskIds needs the extension {TASKS_EXTENSION} in the client's capabilities"
            data: dict[str, object] = {
                "requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}
            }
            error = codes.plain_error(codes.MISSING_CAPABILITY, why, data)
            request.pass_error(error)
            return
        followed = len(wanted.uris) + len(wanted.tasks)
        if not session.may_follow(followed):
            request.refuse(too_many_followed())
            return
        session.followed += followed
        refused = partial(self._refused, session, key)
        kept = request.keep()
        listener = ClientSubscription(
            state.ctx, session.id, request.ident, key, wanted, kept, refused
        )
        request.drop()
        session.listens[key] = listener
        if session.server is None:
            self._open_on_aggregate(session, listener)
        else:
            self._open_on_server(session, listener, session.server)

    def cancel(self, session: Session, key: bytes) -> bool:
        """End a listen that its client has given up; tell whether there was one."""
        listener = session.listens.pop(key, None)
        if listener is None:
            return False
        listener.is_over = True
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
        for session in self._state.sessions.values():
            self._end(session, DRAINING)

    def configured(self, gone: list[Upstream]) -> None:
        """Entries are others now, and the places of some are about to be retired."""
        entries = self._state.entries
        for session in self._state.sessions.values():
            if session.server is not None and session.server not in entries:
                self._end(session, self._state.not_found(session.server))
            for listener in list(session.listens.values()):
                for topic in list(listener.owners):
                    if not listener.is_over:  # not refused by now
                        self._following.move(session, listener, topic, gone)

    # -- opening ---------------------------------------------------------------------------------

    def _open_on_server(self, session: Session, listener: ClientSubscription, server: str) -> None:
        state, wanted = self._state, listener.wanted
        entry = state.entry(server)
        known = self._introduction(session, server)
        topics = () if known is None else _topics(wanted, known)
        if isinstance(entry, Failure):
            if entry.kind != "server_stopped" or known is None or topics:
                listener.refuse(entry)
                return
        elif known is None:
            self._open_when_introduced(session, listener, entry)
            return
        listener.honoured = Listen(
            tools=wanted.tools and known.has("tools"),
            prompts=wanted.prompts and known.has("prompts"),
            resources=wanted.resources and known.has("resources"),
        )
        owners = {} if isinstance(entry, Failure) else dict.fromkeys(topics, entry)
        self._follow(session, listener, owners)

    def _open_when_introduced(
        self, session: Session, listener: ClientSubscription, entry: Entry
    ) -> None:
        upstream = self._following.place(session, entry)
        again = partial(self._open_again, session, entry.name)
        Waiting(self._state, listener, upstream, self._opened, again).for_start()

    def _open_again(self, session: Session, server: str, listener: ClientSubscription) -> None:
        self._open_on_server(session, listener, server)

    def _opened(self, listener: ClientSubscription, upstream: Upstream) -> None:
        session = self._state.sessions.get(listener.session)
        if session is not None and session.server is not None:
            self._open_on_server(session, listener, session.server)

    def _open_on_aggregate(self, session: Session, listener: ClientSubscription) -> None:
        wanted = listener.wanted
        listener.honoured = msgspec.structs.replace(wanted, uris=(), tasks=())
        if wanted.uris:
            found = partial(self._follow_owners, session)
            self._resource_owners.with_owners(session, listener, wanted.uris, found)
        else:
            self._acknowledge(listener)

    def _follow_owners(self, session: Session, listener: ClientSubscription) -> None:
        owners = self._resource_owners.owners(session, listener, listener.wanted.uris)
        followed: dict[Topic, Entry] = {
            uri: entry for uri, entry in owners.items() if self._has_updates(session, entry)
        }
        self._follow(session, listener, followed)

    def _introduction(self, session: Session, server: str) -> Introduction | None:
        own = session.upstreams.get(server)
        known = own.introduction if own is not None else None
        known = known or self._state.introduction_of(server)
        lacks = self._state.scope_of(session.principal).lacks
        return None if known is None else known.without(lacks)

    def _has_updates(self, session: Session, entry: Entry) -> bool:
        known = self._introduction(session, entry.name)
        return known is None or known.has("resources", "subscribe")

    def _follow(
        self, session: Session, listener: ClientSubscription, owners: Mapping[Topic, Entry]
    ) -> None:
        if not owners:
            self._acknowledge(listener)
            return
        listener.awaited.update(owners)
        for topic, entry in owners.items():
            if listener.is_over:
                return  # refused: its server does not come
            self._following.begin(session, listener, topic, entry)

    def _followed(
        self,
        session: Session,
        listener: ClientSubscription,
        topic: Topic,
        error: Raw | bytes | None,
        failure: Failure | None,
    ) -> None:
        """Go on once a server has said whether something can be followed."""
        if failure is not None and session.server is not None:
            listener.refuse(failure)
            return
        if error is not None or failure is not None:
            listener.owners.pop(topic, None)
            listener.slots.pop(topic, None)
        listener.awaited.discard(topic)
        if not listener.awaited:
            self._acknowledge(listener)

    def _acknowledge(self, listener: ClientSubscription) -> None:
        wanted, owners = listener.wanted, listener.owners
        uris = tuple(uri for uri in wanted.uris if uri in owners)
        tasks = tuple(ident for ident in wanted.tasks if Task(ident) in owners)
        listener.honoured = msgspec.structs.replace(listener.honoured, uris=uris, tasks=tasks)
        listener.acknowledge()

    def _refused(self, session: Session, key: bytes, failure: Failure) -> None:
        """End a subscription that cannot be served, and answer its request."""
        listener = session.listens.get(key)
        if listener is not None:
            self.cancel(session, key)
            ClientRequest(session, listener.ident, key).refuse(failure)

    # -- the end -----------------------------------------------------------------------------------

    def _end(self, session: Session, failure: Failure) -> None:
        for listener in list(session.listens.values()):
            if listener.is_acknowledged:
                self.cancel(session, listener.key)
                result = listen_result(listener.ident, is_draining=self._is_draining)
                ClientRequest(session, listener.ident, listener.key).reply(result)
            else:
                listener.refuse(failure)


def _topics(wanted: Listen, known: Introduction) -> tuple[Topic, ...]:
    """Return what a server can be asked to tell of."""
    uris = wanted.uris if known.has("resources", "subscribe") else ()
    tasks = wanted.tasks if modern.has_tasks(known) else ()
    return (*uris, *(Task(ident) for ident in tasks))


def _has_tasks(request: ClientRequest) -> bool:
    capabilities = b"{}" if request.client_info is None else request.client_info.capabilities
    extensions = (envelope.object_of(capabilities) or {}).get("extensions", Raw(b"{}"))
    return TASKS_EXTENSION in (envelope.object_of(extensions) or {})
