"""What the HTTP front asks of the daemon: sessions of the mux, and what their tokens may use."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import KeepSession, SessionState
from mcpd.core.interface.events import Join
from mcpd.core.mcp import codes
from mcpd.core.mux.mux import Mux
from mcpd.daemon.downstream import Sessions
from mcpd.daemon.servers.registry import Registry
from mcpd.ids import SessionId
from mcpd.listeners.http.core import Carrier, Life
from mcpd.principal import EVERYTHING, Principal, Scope, bearer
from mcpd.tokens import Token

TURN: Final = 64
"""Messages of an array that are handled before other clients have their turn."""


class HttpCore:
    """Implements ``listeners.http.core.Core``."""

    def __init__(
        self,
        mux: Mux,
        sessions: Sessions,
        registry: Registry,
        ended: Callable[[SessionId], None],
    ) -> None:
        """``ended`` is told of each session that has ended."""
        self._mux = mux
        self._sessions = sessions
        self._registry = registry
        self._ended = ended
        self._outboxes: dict[SessionId, _Outbox] = {}

    # -- sessions ----------------------------------------------------------------------------------

    def open(
        self,
        token: Token | None,
        server: str | None,
        carrier: Carrier,
        state: SessionState | None = None,
        *,
        life: Life = Life.STREAM,
        lists: str | None = None,
    ) -> SessionId:
        """Open a session; see ``Core``."""
        name = None if token is None else token.name
        outbox = self._sessions.open(
            lambda session: _Outbox(self, session, carrier, name, server),
            principal_of(token),
        )
        session = outbox.session
        self._outboxes[session] = outbox
        self._sessions.join(
            Join(
                session,
                server,
                state,
                is_kept=life is Life.KEPT,
                is_brief=life is Life.REQUEST,
                is_stale=lists is not None and lists != self.lists_of(server),
            )
        )
        return session

    def take(self, session: SessionId, frame: bytes) -> None:
        """Have the core react to a message."""
        outbox = self._outboxes.get(session)
        if outbox is None:
            return
        if outbox.elements:
            outbox.elements.append(frame)
        else:
            self._sessions.take_frame(session, frame)

    def close(self, session: SessionId, reason: str) -> None:
        """End a session."""
        if self._outboxes.pop(session, None) is not None:
            self._sessions.close(session, reason)
            self._ended(session)

    def end_of_token(self, name: str) -> None:
        """End the sessions of a token that is not valid any more."""
        for outbox in list(self._outboxes.values()):
            if outbox.token == name:
                outbox.close("its token was revoked, or has expired")

    def release(self, session: SessionId) -> None:
        """End a session once no call of it is parked."""
        if session in self._outboxes:
            self._sessions.release(session)

    def parked(self, token: Token | None, server: str | None, state: str) -> SessionId | None:
        """Return the session whose call is parked under a handle, if it is of this token."""
        session = self._mux.parked_session(state)
        outbox = None if session is None else self._outboxes.get(session)
        name = None if token is None else token.name
        if outbox is None or (outbox.token, outbox.server) != (name, server):
            return None
        return session

    # -- servers -----------------------------------------------------------------------------------

    def refusal(self, token: Token | None, server: str) -> bytes | None:
        """Return the error of an endpoint that is none for a token."""
        failure: Failure | None = self._mux.refusal(server, principal_of(token))
        return None if failure is None else codes.error_object(failure)

    def tool_schema(self, token: Token | None, server: str | None, tool: str) -> bytes | None:
        """Return the input schema of a tool, as last listed."""
        return self._mux.tool_schema(server, tool, principal_of(token))

    def lists_of(self, server: str | None) -> str:
        """Return a digest of what the configuration says of an endpoint's servers."""
        digest = hashlib.sha256()
        for entry in self._registry.entries():
            if entry.is_listed if server is None else entry.name == server:
                shown = entry.filter
                digest.update(repr((entry.name, entry.launch, shown.allow, shown.deny)).encode())
        return digest.hexdigest()

    # -- what the core says ------------------------------------------------------------------------

    def keep(self, command: KeepSession) -> None:
        """Have a session saved."""
        outbox = self._outboxes.get(command.session)
        if outbox is not None:
            outbox.carrier.changed(command.state)

    def bring(self, outbox: _Outbox, elements: list[bytes]) -> None:
        """Take the messages of an array, some at a time."""
        outbox.elements.extendleft(reversed(elements))
        asyncio.get_running_loop().call_soon(self._bring_some, outbox)

    def _bring_some(self, outbox: _Outbox) -> None:
        for _ in range(min(TURN, len(outbox.elements))):
            if outbox.session in self._outboxes:
                self._sessions.take_frame(outbox.session, outbox.elements.popleft())
        if outbox.session not in self._outboxes:
            outbox.elements.clear()
        elif outbox.elements:
            asyncio.get_running_loop().call_soon(self._bring_some, outbox)


class _Outbox:
    """Takes what the core sends to one session, to whatever carries it."""

    def __init__(
        self,
        core: HttpCore,
        session: SessionId,
        carrier: Carrier,
        token: str | None,
        server: str | None,
    ) -> None:
        self.session: Final = session
        self.carrier: Final = carrier
        self.token: Final = token
        self.server: Final = server
        self.elements: deque[bytes] = deque()
        """Messages of an array, and those that came after it."""
        self._core = core

    def write(
        self,
        data: bytes | tuple[bytes | Raw, ...],
        *,
        is_notification: bool = False,
        request: bytes = b"",
        is_response: bool = False,
    ) -> None:
        """Pass a message on; what a client does not read, its streams bound."""
        del is_notification
        self.carrier.deliver(data, request or None, is_response=is_response)

    def bring(self, elements: list[bytes]) -> None:
        """Have the elements of an array handled before any other message."""
        self._core.bring(self, elements)

    def unsent_bytes(self) -> int:
        """Return nothing: the front waits for its connections itself."""
        return 0

    def close(self, reason: str) -> None:
        """End what carries the session, then the session."""
        self.carrier.closed(reason)
        self._core.close(self.session, reason)

    async def wait_gone(self, timeout: float) -> None:
        """Wait for nothing: see ``unsent_bytes``."""


@lru_cache(maxsize=64)
def principal_of(token: Token | None) -> Principal:
    """Return who a client is that showed a token, ``None`` where none is asked for."""
    if token is None:
        return bearer(None)
    scope = EVERYTHING
    if token.servers or token.tools or token.read_only:
        servers = frozenset(token.servers) if token.servers else None
        scope = Scope(servers, (token.tools,) if token.tools else (), token.read_only)
    return bearer(token.name, scope, token.profile)
