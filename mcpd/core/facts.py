"""What happened, as values; logs and events are made from these. Units are in the names."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpd.ids import SessionId, SlotId


class Failure(msgspec.Struct, frozen=True):
    """Why a request could not be served, as its sender will be told.

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
    """``None`` for a server that is no process."""
    duration_s: float
    era: str
    protocol_version: str


class ServerCrashed(msgspec.Struct, frozen=True):
    """A process ended, or was given up, without being asked to."""

    server: str
    slot: SlotId
    generation: int
    failure: Failure


class ServerBackoff(msgspec.Struct, frozen=True):
    """The next start waits."""

    server: str
    slot: SlotId
    delay_s: float
    failures: int


class ServerFailed(msgspec.Struct, frozen=True):
    """Too many deaths: nothing more is tried until somebody says so."""

    server: str
    slot: SlotId
    failure: Failure


class ServerStopping(msgspec.Struct, frozen=True):
    """A process is being stopped."""

    server: str
    slot: SlotId
    reason: str


class ServerStopped(msgspec.Struct, frozen=True):
    """A process and its whole tree are gone."""

    server: str
    slot: SlotId
    reason: str
    step: str | None = None


class ServerOverMemory(msgspec.Struct, frozen=True):
    """A process tree takes more memory than its entry allows."""

    server: str
    slot: SlotId
    memory_bytes: int
    limit_bytes: int
    is_busy: bool
    """It has something to do; else it is restarted at once."""


class StrayEnded(msgspec.Struct, frozen=True):
    """An orphan of no server that lives came to us, and is being ended."""

    pid: int


class CatalogChanged(msgspec.Struct, frozen=True):
    """A list of a server is another one than before."""

    server: str
    kind: str
    count: int


class ServerNoise(msgspec.Struct, frozen=True):
    """A server wrote something on stdout that is no message for anybody."""

    server: str
    reason: str
    text: str
    is_first: bool


class ServerWarning(msgspec.Struct, frozen=True):
    """A server did something odd that cost nobody anything, or little."""

    server: str
    text: str


class ServerLogged(msgspec.Struct, frozen=True):
    """A log message of a server that could be attributed to no session."""

    server: str
    level: str
    text: str


class SessionOpened(msgspec.Struct, frozen=True):
    """A connection became a session."""

    session: SessionId
    server: str | None
    client: str | None


class SessionNamed(msgspec.Struct, frozen=True):
    """A session's client has said what it is, for the first time."""

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
    """A client sent something that was answered by us with an error."""

    session: SessionId
    reason: str


class CallStarted(msgspec.Struct, frozen=True):
    """A request of a client, or of a person, is on its way to a server.

    ``method`` is MCP's, ``name`` that of the tool or the prompt, or the URI of the resource.
    """

    session: SessionId
    server: str
    method: str
    name: str | None


class CallWaited(msgspec.Struct, frozen=True):
    """A call was sent that had to wait for a start, for its turn, for room or for a check."""

    session: SessionId
    server: str
    method: str
    name: str | None
    duration_s: float


class CallEnded(msgspec.Struct, frozen=True):
    """A call ended, in whatever way.

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
"""Told only where something listens for them: there are several for each call."""


class FactsOmitted(msgspec.Struct, frozen=True):
    """Within a second a peer caused more facts of one kind than are told one by one.

    ``kind`` is the name of their type. They are of a server or of a session.
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
    | ServerStopping
    | ServerStopped
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
