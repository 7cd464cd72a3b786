"""Facts: what happened, as values. Logs and events are made from them. Names have the units."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpd.ids import SessionId, SlotId


class Failure(msgspec.Struct, frozen=True):
    """Why a request failed, for the client that made it.

    ``kind`` is one of the product's error kinds, ``details`` further members of the error's data.
    """

    kind: str
    message: str
    server: str | None = None
    is_retryable: bool = False
    hint: str | None = None
    details: dict[str, Any] = {}


class ServerStarting(msgspec.Struct, frozen=True):
    """A process is about to be spawned."""

    server: str
    slot: SlotId
    generation: int


class ServerReady(msgspec.Struct, frozen=True):
    """The handshake is done and the tools are listed."""

    server: str
    slot: SlotId
    generation: int
    pid: int | None
    """``None`` for a server that is not a process."""
    duration_s: float
    era: str
    protocol_version: str


class ServerCrashed(msgspec.Struct, frozen=True):
    """A process ended by itself, or could not be used."""

    server: str
    slot: SlotId
    generation: int
    failure: Failure


class ServerBackoff(msgspec.Struct, frozen=True):
    """The next start waits for ``delay_s``, after ``failures`` in a row."""

    server: str
    slot: SlotId
    delay_s: float
    failures: int


class ServerFailed(msgspec.Struct, frozen=True):
    """The server crashed too often and is given up, until a user starts it."""

    server: str
    slot: SlotId
    failure: Failure


class LoginRequired(msgspec.Struct, frozen=True):
    """Somebody must sign in before the server can be used."""

    server: str
    slot: SlotId
    failure: Failure


class ServerStopping(msgspec.Struct, frozen=True):
    """A process is being stopped."""

    server: str
    slot: SlotId
    reason: str


class ServerStopped(msgspec.Struct, frozen=True):
    """A process and its whole process tree are gone."""

    server: str
    slot: SlotId
    reason: str
    step: str | None = None


class SignedIn(msgspec.Struct, frozen=True):
    """Somebody has signed in to a server; ``until`` is RFC 3339, where that is known."""

    server: str
    issuer: str
    until: str | None


class SecretUnavailable(msgspec.Struct, frozen=True):
    """A server was not started: a secret that its entry names cannot be used.

    ``reason`` is ``missing``, ``unusable``, ``keyring_locked`` or ``keyring_unavailable``.
    """

    server: str
    name: str
    reason: str
    message: str


class ServerOverMemory(msgspec.Struct, frozen=True):
    """A process tree uses more memory than its entry allows."""

    server: str
    slot: SlotId
    memory_bytes: int
    limit_bytes: int
    is_busy: bool
    """Whether the server has pending requests; if not, it is restarted at once."""


class StrayEnded(msgspec.Struct, frozen=True):
    """An orphaned process of a server that is gone was found, and is being ended."""

    pid: int


class CatalogChanged(msgspec.Struct, frozen=True):
    """A list of a server has changed."""

    server: str
    kind: str
    count: int


class ServerNoise(msgspec.Struct, frozen=True):
    """A server wrote a line on stdout that is not a valid message."""

    server: str
    reason: str
    text: str
    is_first: bool


class ServerWarning(msgspec.Struct, frozen=True):
    """A warning about a server, such as a violation of the protocol with little effect."""

    server: str
    text: str


class ServerLogged(msgspec.Struct, frozen=True):
    """A server sent a log message that belongs to no session."""

    server: str
    level: str
    text: str


class SessionOpened(msgspec.Struct, frozen=True):
    """A connection became a session."""

    session: SessionId
    server: str | None
    client: str | None


class SessionNamed(msgspec.Struct, frozen=True):
    """The client of a session has sent its name for the first time."""

    session: SessionId
    server: str | None
    client: str


class SessionClosed(msgspec.Struct, frozen=True):
    """A session ended."""

    session: SessionId
    server: str | None
    reason: str
    client: str | None = None


class FrameRejected(msgspec.Struct, frozen=True):
    """A client sent an invalid message, and got an error from mcpd."""

    session: SessionId
    reason: str
    client: str | None = None


class CallStarted(msgspec.Struct, frozen=True):
    """A request of a client, or of a user, was sent towards a server.

    ``method`` is MCP's, ``name`` that of the tool or the prompt, or the URI of the resource.
    """

    session: SessionId
    server: str
    method: str
    name: str | None


class CallWaited(msgspec.Struct, frozen=True):
    """A call was sent after it waited: for a start, its turn, room or a check."""

    session: SessionId
    server: str
    method: str
    name: str | None
    duration_s: float


class CallEnded(msgspec.Struct, frozen=True):
    """A call ended.

    ``outcome`` is ``answered``, ``error`` (the server's, or a tool's), ``failed``, ``timed_out``,
    ``cancelled``, ``refused`` or ``lost``; ``kind`` is the kind of our failure, if it was one.
    ``duration_s`` counts from ``CallStarted``.
    """

    session: SessionId
    server: str
    method: str
    name: str | None
    outcome: str
    kind: str | None
    duration_s: float
    request_bytes: int
    result_bytes: int


CallFact = CallStarted | CallWaited | CallEnded
"""Reported only if there is a listener: each call has several."""


class FactsOmitted(msgspec.Struct, frozen=True):
    """A peer caused more facts of one kind within a second than are reported one by one.

    ``kind`` is the name of their type, ``count`` how many were left out. The peer is a server or a
    session.
    """

    kind: str
    count: int
    server: str | None = None
    session: SessionId | None = None


Fact = (
    ServerStarting
    | ServerReady
    | ServerCrashed
    | ServerBackoff
    | ServerFailed
    | LoginRequired
    | ServerStopping
    | ServerStopped
    | SignedIn
    | SecretUnavailable
    | ServerOverMemory
    | StrayEnded
    | CatalogChanged
    | ServerNoise
    | ServerWarning
    | ServerLogged
    | SessionOpened
    | SessionNamed
    | SessionClosed
    | FrameRejected
    | FactsOmitted
    | CallFact
)
