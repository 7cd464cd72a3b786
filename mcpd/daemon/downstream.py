"""The sessions of clients, where their messages go, and the listeners that they come from."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import Protocol, TypeVar

from msgspec import Raw

from mcpd import tasks
from mcpd.config.schema import DaemonConfig
from mcpd.core.interface.events import (
    FrameFromSession,
    InputEnded,
    Join,
    LeftReserve,
    Release,
    SessionClosed,
    SessionOpened,
)
from mcpd.core.mux.client_messages import NO_SESSION
from mcpd.core.mux.mux import Mux
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.ids import SessionId
from mcpd.listeners.connection import HUNG_UP, Connection, Outboxes
from mcpd.listeners.halfopen import HalfOpen
from mcpd.listeners.peer import Peer
from mcpd.listeners.unix import UnixListener
from mcpd.principal import Principal, local
from mcpd.supervise import descriptors

MOST_CONNECTIONS = 1000
"""Connections on the Unix socket, besides those in reserve."""

SLACK_BYTES = 64 * 1024
"""Bytes by which a client's line may exceed ``max_request_bytes``, which counts what is sent on."""


class Outbox(Protocol):
    """Takes the messages of one session to its client, by one connection or several."""

    def write(
        self,
        data: bytes | tuple[bytes | Raw, ...],
        *,
        is_notification: bool = False,
        request: bytes = b"",
        is_response: bool = False,
    ) -> None:
        """Queue a message, or the parts of one; never waits and never raises.

        ``request`` is the key of the request that it belongs to, as in ``ToSession``.
        """

    def bring(self, elements: list[bytes]) -> None:
        """Deliver the elements of an array that the client sent, before any other frame."""

    def unsent_bytes(self) -> int:
        """Return how many bytes the client has not taken yet."""

    def close(self, reason: str) -> None:
        """Write what is queued, then close what carries the session."""

    async def wait_gone(self, timeout: float) -> None:
        """Wait, ``timeout`` seconds at most, until that is done."""


OutboxT = TypeVar("OutboxT", bound=Outbox)


class Events(Protocol):
    """What sessions need of the dispatcher."""

    @property
    def outboxes(self) -> MutableMapping[SessionId, Outbox]:
        """Where the messages for each session go."""

    def dispatch(
        self, event: SessionOpened | SessionClosed | FrameFromSession | Join | Release
    ) -> None:
        """Let the mux react."""


class Sessions:
    """All sessions. Each lasts from ``open`` to ``close``, whatever carries it in between."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._ids = itertools.count(1)

    def open(
        self,
        make: Callable[[SessionId], OutboxT],
        principal: Principal,
        *,
        in_reserve: bool = False,
    ) -> OutboxT:
        """Open a session for the outbox that ``make`` returns for its id.

        ``in_reserve``: it may make control requests only.
        """
        session = SessionId(next(self._ids))
        outbox = make(session)
        self._events.outboxes[session] = outbox
        self._events.dispatch(SessionOpened(session, principal, in_reserve))
        return outbox

    def join(self, event: Join) -> None:
        """Make a connection a session of an endpoint."""
        self._events.dispatch(event)

    def release(self, session: SessionId) -> None:
        """End a session once nothing of it is under way."""
        self._events.dispatch(Release(session))

    def take_frame(self, session: SessionId, frame: Frame | Oversized) -> None:
        """Pass a frame of a client on."""
        self._events.dispatch(FrameFromSession(session, frame))

    def notify(self, session: SessionId, line: bytes) -> None:
        """Write a notification to a session, if there is room for it."""
        outbox = self._events.outboxes.get(session)
        if outbox is not None:
            outbox.write(line, is_notification=True)

    def close(self, session: SessionId, reason: str) -> None:
        """Close a session whose client is gone or is not served any more."""
        self._events.outboxes.pop(session, None)
        self._events.dispatch(SessionClosed(session, reason))


class Listener(Protocol):
    """Accepts clients."""

    def start(self) -> None:
        """Begin to accept."""

    async def close(self) -> None:
        """Accept no more, and close the socket."""


class Listeners:
    """The listeners that the configuration asks for, which a reload opens and closes."""

    def __init__(
        self, wanted: Callable[[DaemonConfig], Mapping[Hashable, Callable[[], Listener]]]
    ) -> None:
        """``wanted`` returns what makes each listener of a configuration, by its address."""
        self._wanted = wanted
        self._open: dict[Hashable, Listener] = {}
        self._closing = tasks.Group()

    def apply(self, config: DaemonConfig) -> None:
        """Close the listeners that are not wanted any more, and open those that are missing."""
        wanted = self._wanted(config)
        for address in self._open.keys() - wanted.keys():
            listener = self._open.pop(address)
            self._closing.spawn(listener.close(), name="listeners.close")
        for address, make in wanted.items():
            if address not in self._open:
                self._open[address] = make()
                self._open[address].start()

    async def close(self) -> None:
        """Close all of them."""
        while self._open:
            _, listener = self._open.popitem()
            await listener.close()
        await self._closing.close()


class UnixSessions:
    """The sessions of the Unix socket: each has one connection and ends with it."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        mux: Mux,
        sessions: Sessions,
        dispatch: Callable[[LeftReserve | InputEnded], None],
        settings: Callable[[], DaemonConfig],
        connected: Callable[[SessionId, int | None], None],
        closed: Callable[[SessionId], None],
        refused: Callable[[str], None],
        broken: Callable[[SessionId, str], None],
    ) -> None:
        """Prepare.

        ``connected`` gets each new connection with the pid of its client, if that is known.
        ``refused`` gets the reason why a client was not let in, ``broken`` the session and the
        reason of a connection that ended otherwise than by its client's closing it.
        """
        self._sessions = sessions
        self._settings = settings
        self._connected = connected
        self._ended = closed
        self._broken = broken
        self._outboxes = Outboxes(one_bytes=settings().outbox_bytes, memory=mux.memory)
        self._half_open = HalfOpen(lambda session: dispatch(InputEnded(session)))
        self._connections: dict[SessionId, Connection] = {}
        self._pids: dict[SessionId, int] = {}
        self.listener = UnixListener(
            listening,
            most=MOST_CONNECTIONS,
            usable_fds=lambda: (descriptors.usable(), descriptors.usable_for_control()),
            connect=self._connect,
            admitted=lambda connection: dispatch(LeftReserve(connection.session)),
            is_idle=lambda connection: not mux.owes(connection.session),
            refused=refused,
        )

    def close(self) -> None:
        """Watch no more connections whose client has ended its input."""
        self._half_open.close()

    def peer_of(self, session: SessionId) -> int | None:
        """Return the process that has connected; ``None`` where it cannot be told."""
        return self._pids.get(session)

    def _connect(self, peer: Peer, in_reserve: bool) -> Connection:
        def make(session: SessionId) -> Connection:
            if peer.pid is not None:
                self._pids[session] = peer.pid
            connection = self._connections[session] = Connection(
                session,
                max_frame_bytes=self._settings().max_request_bytes + SLACK_BYTES,
                outboxes=self._outboxes,
                on_frame=self._sessions.take_frame,
                on_closed=self._closed,
                half_open=self._half_open,
            )
            return connection

        opened = self._sessions.open(make, local(peer.uid), in_reserve=in_reserve)
        self._connected(opened.session, peer.pid)
        return opened

    def _closed(self, session: SessionId, reason: str) -> None:
        connection = self._connections.pop(session, None)
        self._pids.pop(session, None)
        if connection is not None:
            self.listener.ended(connection)
        if reason == NO_SESSION:
            self.listener.report_refusal(reason)
        elif not reason.startswith(HUNG_UP):
            self._broken(session, reason)
        self._sessions.close(session, reason)
        self._ended(session)
