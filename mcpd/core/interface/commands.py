"""Commands: what the mux asks the daemon to do, or reports. One closed union of frozen structs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from mcpd.core.catalog.examine import Job
from mcpd.core.catalog.model import Catalog
from mcpd.core.catalog.pins import Pins
from mcpd.core.catalog.sanitise import Level
from mcpd.core.facts import CallEnded, Fact, Failure, Rule
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.offer import FULL, Offer
from mcpd.core.mcp.routing import Routing
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
    """Write to a server. ``wire_id`` is that of a request, 0 for other messages.

    ``cancels`` is the wire id of the request that this message cancels; it is written before
    everything else that still waits to be written. ``routing`` is what headers say of a request,
    for a server that has headers.
    """

    slot: SlotId
    data: bytes
    wire_id: int = 0
    cancels: int = 0
    routing: Routing | None = None


class Introduced(msgspec.Struct, frozen=True):
    """The server has introduced itself, and speaks this revision of MCP from now on."""

    slot: SlotId
    version: str


class KeepSession(msgspec.Struct, frozen=True):
    """Keep what makes a session up for the next daemon.

    It comes before the answer to the request that changed it.
    """

    session: SessionId
    state: SessionState


class SessionElements(msgspec.Struct, frozen=True, gc=False):
    """Report each element of a batch that a client sent as a ``FrameFromSession``.

    They come before the next line of that client; events of others may come in between.
    """

    session: SessionId
    elements: list[bytes]


class ServerElements(msgspec.Struct, frozen=True, gc=False):
    """Report each element of a batch that a server sent as a ``FrameFromServer``."""

    slot: SlotId
    elements: list[bytes]


class CloseSession(msgspec.Struct, frozen=True):
    """Close a connection once what is queued for it is written. ``reason`` is for the log."""

    session: SessionId
    reason: str


class OpenSlot(msgspec.Struct, frozen=True):
    """Open a slot for a process of this server, or keep one that was going to be closed.

    ``key`` names the session or workspace that the process is for (``instances`` shows it),
    ``None`` for a shared process. ``after`` is a slot whose process tree must have ended before
    anything is started in this one.
    """

    slot: SlotId
    server: str
    key: str | None
    cwd: str | None
    after: SlotId | None


class CloseSlot(msgspec.Struct, frozen=True):
    """Stop what runs in this slot and forget it."""

    slot: SlotId
    reason: str


class Want(msgspec.Struct, frozen=True):
    """Requests wait for this server: start it, unless it has failed or was stopped."""

    slot: SlotId


class Busy(msgspec.Struct, frozen=True):
    """The server has users."""

    slot: SlotId


class Idle(msgspec.Struct, frozen=True):
    """The server has no users any more."""

    slot: SlotId


class Ready(msgspec.Struct, frozen=True):
    """The handshake is done, in this revision of MCP, and the lists have been read."""

    slot: SlotId
    version: str


class Probing(msgspec.Struct, frozen=True):
    """The probe for the era has begun or ended; some servers exit when they read it.

    Between the two an exit is no crash: ``ServerDown`` says planned and coming back, and a new
    process follows in the same attempt to start. ``ProbeRead`` reports that the probe was read.
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
    """The process runs, but it cannot be used: ``failure`` says why."""

    slot: SlotId
    failure: Failure


class Answered(msgspec.Struct, frozen=True):
    """The process has answered its first call."""

    slot: SlotId


class Control(msgspec.Struct, frozen=True):
    """Serve a control request. The response comes as ``ControlDone``, or an event of its own."""

    session: SessionId
    key: bytes
    method: str
    params: bytes | None
    principal: Principal


class ControlCancelled(msgspec.Struct, frozen=True):
    """A client has cancelled a control request or ended a stream, or is gone."""

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


class Examine(msgspec.Struct, frozen=True):
    """Look at a long list, not on the loop; answer with ``ListExamined``."""

    ticket: int
    job: Job


class CleanResult(msgspec.Struct, frozen=True):
    """Clean a long result, not on the loop; answer with ``ResultCleaned``."""

    ticket: int
    result: Raw | bytes
    level: Level


class KeepPins(msgspec.Struct, frozen=True):
    """Put on disk which definitions of a server are approved; ``None`` forgets them."""

    server: str
    launch: str
    pins: Pins | None


class KeepRules(msgspec.Struct, frozen=True):
    """Put on disk which answers are remembered for good; answer with ``RulesKept``."""

    ticket: int
    rules: tuple[Rule, ...]


class Tell(msgspec.Struct, frozen=True):
    """Publish a fact."""

    fact: Fact


class KeepBudget(msgspec.Struct, frozen=True):
    """Keep how many tokens a server has had sampled today, for the next daemon."""

    server: str
    tokens: int


Command = (
    ToSession
    | ToServer
    | Introduced
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
    | KeepBudget
    | Examine
    | CleanResult
    | KeepPins
    | KeepRules
    | Tell
    | CallEnded
)
