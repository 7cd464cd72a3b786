"""What the front needs of the daemon: sessions whose messages it carries."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from mcpd.core.interface.commands import SessionState
from mcpd.ids import SessionId
from mcpd.listeners.http.streams import Line
from mcpd.tokens import Token


class Life(Enum):
    """How long a session lasts."""

    KEPT = "kept"
    """Until its client ends it, or it is idle for long; the next daemon takes it up."""
    STREAM = "stream"
    """As long as its stream."""
    REQUEST = "request"
    """As long as one request, and the calls that it parks."""


class Carrier(Protocol):
    """Takes what a session of the core sends to its client."""

    def deliver(self, line: Line, request: bytes | None, *, is_response: bool) -> None:
        """Carry a message.

        ``request`` is the key of the client's request that it belongs to (its response, progress,
        questions and log messages), ``None`` where it belongs to none.
        """

    def changed(self, state: SessionState) -> None:
        """Take note of what makes the session up, before whatever changed it is answered."""

    def closed(self, reason: str) -> None:
        """The core has ended the session."""


class Core(Protocol):
    """The daemon, as far as the front asks it for something. Nothing of it waits."""

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
        """Open a session on an endpoint, or take one up again that was saved as ``state``.

        ``lists`` is what ``lists_of`` returned when it was saved.
        """

    def lists_of(self, server: str | None) -> str:
        """Return a digest of what the configuration says about the lists of an endpoint."""

    def take(self, session: SessionId, frame: bytes) -> None:
        """Have the core react to a message of a client."""

    def close(self, session: SessionId, reason: str) -> None:
        """End a session; what it has in flight is cancelled."""

    def release(self, session: SessionId) -> None:
        """End a session once no call of it is parked."""

    def parked(self, token: Token | None, server: str | None, state: str) -> SessionId | None:
        """Return the session whose call is parked under a ``requestState``, if the token may."""

    def refusal(self, token: Token | None, server: str) -> bytes | None:
        """Return the error of an endpoint that is none, or none for this token; else ``None``."""

    def tool_schema(self, token: Token | None, server: str | None, tool: str) -> bytes | None:
        """Return the input schema of a tool, as last listed; ``None`` where it is unknown."""
