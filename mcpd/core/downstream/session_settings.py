"""What legacy sessions set: their log level, their resource subscriptions, their roots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw

from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.downstream.resource_owners import ResourceOwners
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.failures import no_room, too_many_followed
from mcpd.core.mcp import codes
from mcpd.core.mcp.methods import LEVELS, Route
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.log_level import most_verbose
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId


class _LevelChange:
    """A ``logging/setLevel`` that waits for the process to have the level."""

    __slots__ = ("_before", "_level", "_request")

    def __init__(self, request: ClientRequest, level: str, before: str | None) -> None:
        self._request = request
        self._level = level
        self._before = before

    def __call__(self, error: Raw | bytes | None) -> None:
        """Answer the client; ``error`` is the server's refusal."""
        request = self._request
        request.leave = None
        if request.is_over:
            return
        if error is None:
            request.reply(b"{}")
            return
        session = request.session
        if session.level == self._level:  # else it has asked for another since
            session.level = self._before
            session.client_info = msgspec.structs.replace(session.client_info, level=self._before)
            session.keep()
        request.pass_error(error)


class SessionSettings:
    """What sessions set, and how it is passed on to the processes that they use."""

    def __init__(
        self, state: MuxState, slots: Slots, served: ListRequests, owners: ResourceOwners
    ) -> None:
        self._state = state
        self._slots = slots
        self._list_requests = served
        self._resource_owners = owners

    def set_level(self, request: ClientRequest) -> None:
        """Answer ``logging/setLevel`` once the process knows it."""
        level, session = envelope.text(request.found.level), request.session
        if level not in LEVELS:
            why = f"level must be one of {', '.join(LEVELS)}"
            request.reject(codes.INVALID_PARAMS, why)
            return
        if session.server is None:
            session.level = level
            session.client_info = msgspec.structs.replace(session.client_info, level=level)
            for upstream in session.upstreams.values():
                self.apply_levels(upstream)
            session.keep()
            request.reply(b"{}")
            return
        entry = self._state.entry(session.server)
        if isinstance(entry, Failure):
            request.refuse(entry)
            return
        if not self._list_requests.has(entry.name, "logging"):
            why = f"{entry.name} has no logging"
            request.reject(codes.METHOD_NOT_FOUND, why)
            return
        change = _LevelChange(request, level, session.level)
        session.level = level
        session.client_info = msgspec.structs.replace(session.client_info, level=level)
        session.keep()
        upstream = self._slots.upstream_for(session, entry)
        request.leave = partial(upstream.log_level.wait_no_more, change)
        self.apply_levels(upstream, change)

    def apply_levels(
        self, upstream: Upstream, then: Callable[[Raw | bytes | None], None] | None = None
    ) -> None:
        """Set a process to the most verbose level that any of its sessions wants."""
        sessions = (
            self._state.sessions.get(SessionId(ident)) for ident in upstream.calls.usage.users
        )
        wanted = most_verbose(level for s in sessions if s is not None for level in s.levels())
        known = upstream.introduction
        if wanted is None or (known is not None and not known.has("logging")):
            if then is not None:
                then(None)
            return
        upstream.log_level.set(wanted, then)

    def subscribe(self, request: ClientRequest) -> None:
        """Answer ``resources/subscribe`` and ``resources/unsubscribe``."""
        uri, session = envelope.text(request.found.uri), request.session
        if uri is None:
            request.reject(codes.INVALID_PARAMS, "uri must be a string")
            return
        if request.method.route is Route.UNSUBSCRIBE:
            for waiting in _subscribing(session, uri):
                waiting.reply(b"{}")  # else it would subscribe its client later
            server = self._forget(session, uri)
            upstream = session.upstreams.get(server or "")
            if upstream is not None:
                upstream.subscriptions.remove(uri, session.id, is_up=upstream.is_ready)
            session.keep()
            request.reply(b"{}")
            return
        if session.server is None:
            self._resource_owners.by_uri(request, uri, self._subscribe_at)
            return
        entry = self._state.entry(session.server)
        if isinstance(entry, Failure):
            request.refuse(entry)
        elif not self._list_requests.has(entry.name, "resources", "subscribe"):
            why = f"{entry.name} has no subscriptions to resources"
            request.reject(codes.METHOD_NOT_FOUND, why)
        else:
            self._subscribe_at(request, entry)

    def _subscribe_at(self, request: ClientRequest, entry: Entry) -> None:
        uri, session = envelope.text(request.found.uri) or "", request.session
        if uri not in session.subscribed:
            if not session.may_follow(1):
                request.refuse(too_many_followed())
                return
            if not session.share.take(uri.__sizeof__()):
                request.refuse(no_room(session.share, len(uri), server=entry.name))
                return
        upstream = self._slots.upstream_for(session, entry)
        request.keep()  # a client that gives it up is subscribed all the same
        session.subscribed[uri] = entry.name
        subscribed = partial(self._subscribed, request, uri)
        upstream.subscriptions.add(uri, session.id, subscribed, is_up=upstream.is_ready)
        if not upstream.is_ready:
            upstream.calls.start_wait.when_ready(_nobody)

    def _subscribed(
        self,
        request: ClientRequest,
        uri: str,
        error: Raw | bytes | None,
        failure: Failure | None,
    ) -> None:
        request.release()
        if error is not None or failure is not None:
            self._forget(request.session, uri)
        if request.is_over:
            return
        if error is not None:
            request.pass_error(error)
        elif failure is not None:
            request.refuse(failure)
        else:
            request.session.keep()
            request.reply(b"{}")

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
            entry = self._state.entries.get(name)
            if entry is not None and entry.asks_for_roots and upstream.is_ready:
                upstream.notify(b'"notifications/roots/list_changed"')


def _subscribing(session: Session, uri: str) -> list[ClientRequest]:
    """Return the requests of a session to subscribe to a resource that have no answer yet."""
    return [
        request
        for request in session.requests.values()
        if not request.is_control
        and request.method.route is Route.SUBSCRIBE
        and envelope.text(request.found.uri) == uri
    ]


def _nobody(failure: Failure | None) -> None:
    """Nobody waits for the process: it is told what is wanted as soon as it is there."""
