"""What the mux asks the outside to do: one closed union of frozen structs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from mcpd.core.catalog.model import Catalog
from mcpd.core.facts import Fact, Failure
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.offer import FULL, Offer
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Principal


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a session up that another daemon can take up again.

    ``capabilities`` and ``info`` are JSON as its client wrote them in ``initialize``.
    """

    version: str
    capabilities: bytes = b"{}"
    info: bytes | None = None
    level: str | None = None
    subscribed: tuple[tuple[str, str], ...] = ()
    """Resource URIs it is subscribed to, each with its server."""
    is_initialized: bool = True


class ToSession(msgspec.Struct, frozen=True, gc=False):
    """Write to a client.

    ``data`` is a line, or the parts of a large one. ``request`` is the key of the client's request
    that the message belongs to: as its response if ``is_response``, otherwise as its progress, a
    log message or a question of it; empty for a message that belongs to no request. A slow client
    loses messages that are marked ``is_notification`` first.

    Streamable HTTP (2025-11-25, basic/transports) sends each message on one stream: on that of the
    request that it belongs to, or on the one that the client opened for everything else.
    """

    session: SessionId
    data: bytes | tuple[bytes | Raw, ...]
    is_notification: bool = False
    request: bytes = b""
    is_response: bool = False


class ToServer(msgspec.Struct, frozen=True, gc=False):
    """Write to a server; ``wire_id`` is 0 for what is no request.

    The cancellation of the request ``cancels`` overtakes what its stdin has not taken.
    """

    slot: SlotId
    data: bytes
    wire_id: int = 0
    cancels: int = 0


class KeepSession(msgspec.Struct, frozen=True):
    """Keep what makes a session up for the next daemon.

    It comes before the answer to the request that changed it.
    """

    session: SessionId
    state: SessionState


class SessionElements(msgspec.Struct, frozen=True, gc=False):
    """Bring each element of an array that a client sent, as ``FrameFromSession``.

    They come before anything else of that client, and others have their turns in between.
    """

    session: SessionId
    elements: list[bytes]


class ServerElements(msgspec.Struct, frozen=True, gc=False):
    """Bring each element of an array that a server sent, as ``FrameFromServer``, in that way."""

    slot: SlotId
    elements: list[bytes]


class CloseSession(msgspec.Struct, frozen=True):
    """End a connection, after what is queued for it was written."""

    session: SessionId
    reason: str


class OpenSlot(msgspec.Struct, frozen=True):
    """There is a place for a process of this entry, a new one or one that was retiring and stays.

    ``key`` is ``None`` for the shared process, else what it is for (shown in ``instances``).
    ``after`` is a place whose tree must be gone before anything is started here.
    """

    slot: SlotId
    server: str
    key: str | None
    cwd: str | None
    after: SlotId | None


class CloseSlot(msgspec.Struct, frozen=True):
    """Nobody will use this place again: stop what runs there and forget it."""

    slot: SlotId
    reason: str


class Want(msgspec.Struct, frozen=True):
    """Somebody waits for this server: start it unless something speaks against it."""

    slot: SlotId


class Busy(msgspec.Struct, frozen=True):
    """The server has users."""

    slot: SlotId


class Idle(msgspec.Struct, frozen=True):
    """The server has no users any more."""

    slot: SlotId


class Ready(msgspec.Struct, frozen=True):
    """The handshake is done, in this revision of MCP, and the lists are read."""

    slot: SlotId
    version: str


class Probing(msgspec.Struct, frozen=True):
    """Whether the process is being asked something that it may die of.

    While it is on, its end is no crash: ``ServerDown`` says planned and coming back, and a new
    process follows in the same attempt to start. ``ProbeRead`` tells when it has read the question.
    """

    slot: SlotId
    is_on: bool


class StartOver(msgspec.Struct, frozen=True):
    """Kill the process, which is still starting, and spawn another in the same attempt.

    ``ServerDown`` (planned, coming back) and ``ServerUp`` follow.
    """

    slot: SlotId
    reason: str


class StartRefused(msgspec.Struct, frozen=True):
    """The process lives and cannot be used."""

    slot: SlotId
    failure: Failure


class Answered(msgspec.Struct, frozen=True):
    """The process has answered its first call."""

    slot: SlotId


class Control(msgspec.Struct, frozen=True):
    """A control request that the daemon answers: with ``ControlDone``, or an event of its own."""

    session: SessionId
    key: bytes
    method: str
    params: bytes | None
    principal: Principal


class ControlCancelled(msgspec.Struct, frozen=True):
    """A control request or a stream is over for its client."""

    session: SessionId
    key: bytes


class Validate(msgspec.Struct, frozen=True):
    """Check arguments against a schema; answer with ``Validated``."""

    ticket: int
    schema: bytes
    arguments: bytes


class KeepCatalog(msgspec.Struct, frozen=True):
    """Put on disk what a server said of itself and listed, under its entry's name."""

    server: str
    launch: str
    introduction: Introduction
    catalog: Catalog
    has_asked: bool = False
    """Whether the server has been seen to ask questions."""
    offer: Offer = FULL
    """What of ``initialize`` a legacy server accepted."""
    capabilities: bytes = b"{}"
    """What was declared to the process, as JSON."""
    of_clients: Mapping[str, Catalog] = {}
    """What it listed for clients that declare something else, by what these declare."""


class Tell(msgspec.Struct, frozen=True):
    """Something happened that somebody may want to know."""

    fact: Fact


Command = (
    ToSession
    | ToServer
    | KeepSession
    | SessionElements
    | ServerElements
    | CloseSession
    | OpenSlot
    | CloseSlot
    | Want
    | Busy
    | Idle
    | Ready
    | Probing
    | StartOver
    | StartRefused
    | Answered
    | Control
    | ControlCancelled
    | Validate
    | KeepCatalog
    | Tell
)
