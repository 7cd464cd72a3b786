"""Events: what the daemon reports to the mux. One closed union of frozen structs.

The module is long because the union is closed: every event is here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcpd.core.catalog.examine import Examined
from mcpd.core.facts import Failure, Rule
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.entries import Entry, Policy
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Principal


class SessionOpened(msgspec.Struct, frozen=True, gc=False):
    """A client has connected. ``in_reserve``: it may send control requests only."""

    session: SessionId
    principal: Principal
    in_reserve: bool = False


class LeftReserve(msgspec.Struct, frozen=True):
    """A connection that was in the reserve may send MCP requests from now on."""

    session: SessionId


class FrameFromSession(msgspec.Struct, frozen=True, gc=False):
    """A client sent a line."""

    session: SessionId
    frame: Frame | Oversized


class InputEnded(msgspec.Struct, frozen=True):
    """A client has closed its sending side; it still reads."""

    session: SessionId


class SessionClosed(msgspec.Struct, frozen=True):
    """A connection has ended, on whichever side."""

    session: SessionId
    reason: str


class ServerUp(msgspec.Struct, frozen=True):
    """A process exists and its pipes are connected."""

    slot: SlotId


class ProbeRead(msgspec.Struct, frozen=True):
    """The process has read all of its stdin, or has written something on stdout or stderr.

    Comes once, and only while its ``Probing`` is on.
    """

    slot: SlotId


class FrameFromServer(msgspec.Struct, frozen=True, gc=False):
    """A server wrote a line on its stdout."""

    slot: SlotId
    frame: Frame | Oversized


class ServerDown(msgspec.Struct, frozen=True):
    """The process has ended, or could not be started.

    ``is_planned``: the daemon stopped it. ``comes_back``: the supervisor starts it again by itself.
    """

    slot: SlotId
    failure: Failure
    is_planned: bool
    comes_back: bool


class WriteRefused(msgspec.Struct, frozen=True):
    """A line was not written, because too much waits for the server to read it.

    ``wire_id`` is that of the request, 0 for a line that is no request. ``is_gone``: the server's
    stdin is closed, and ``ServerDown`` follows.
    """

    slot: SlotId
    wire_id: int
    is_gone: bool = False


class RequestFailed(msgspec.Struct, frozen=True):
    """A server will not answer this request, for a reason that concerns no other.

    ``may_repeat``: it is sent once more, where that does no harm.
    """

    slot: SlotId
    wire_id: int
    failure: Failure
    may_repeat: bool = False


class EntriesChanged(msgspec.Struct, frozen=True):
    """All servers, in the order of the configuration, those that clients brought included.

    ``sources`` says for people which files were read.
    """

    entries: tuple[Entry, ...]
    policy: Policy = Policy()
    sources: str = ""


class DayBegan(msgspec.Struct, frozen=True):
    """It is another day (UTC), or the daemon has started."""

    spent: Mapping[str, int] | None
    """Tokens that servers have had sampled on this day; ``None`` where that is unknown."""


class UserStop(msgspec.Struct, frozen=True):
    """A user stopped a server: its requests get ``failure``. With ``None`` the user started it."""

    server: str
    failure: Failure | None


class StartUnasked(msgspec.Struct, frozen=True):
    """Start this server, although no request waits for it."""

    server: str


class Attach(msgspec.Struct, frozen=True):
    """``mcpd/attach``, checked: the endpoint of a session, and what its client says of itself."""

    session: SessionId
    key: bytes
    server: str | None
    client: str | None
    workspace: str | None
    roots: tuple[str, ...]
    may_control: bool
    client_pid: int | None = None
    """The process that attached, as it says itself."""
    wants_farewell: bool = False
    """Whether it wants a notification, when the daemon ends, that all that was read is answered."""
    profile: str | None = None
    """The profile that narrows what it may use."""


class Join(msgspec.Struct, frozen=True):
    """A connection is a session from its beginning, on an endpoint that its principal may use."""

    session: SessionId
    server: str | None
    state: SessionState | None = None
    """What it was before, with an earlier daemon or as a request without a session says."""
    is_kept: bool = False
    """Whether the next daemon takes it up again."""
    is_brief: bool = False
    """Whether it is for one request, so that nobody is told of it."""
    is_stale: bool = False
    """Whether its client may have lists that are others now."""


class Release(msgspec.Struct, frozen=True):
    """A session ends once it has no request, no subscription and no parked call any more."""

    session: SessionId


class WorkspaceKnown(msgspec.Struct, frozen=True):
    """``mcpd/hello`` named the workspace for the control calls of a connection."""

    session: SessionId
    workspace: str | None


class CallTool(msgspec.Struct, frozen=True):
    """``mcpd/call``. ``timeout`` limits the call, in seconds; ``None``: the server's limit."""

    session: SessionId
    key: bytes
    server: str
    tool: str
    arguments: bytes | None
    timeout: float | None
    wants_progress: bool
    approvals: bool = False
    """Whether its connection is told of a question about it, and answers that."""


class ListItems(msgspec.Struct, frozen=True):
    """``mcpd/tools``, ``mcpd/prompts`` or ``mcpd/resources``; ``kinds`` are values of ``Kind``."""

    session: SessionId
    key: bytes
    kinds: tuple[str, ...]
    server: str | None


class ReadResource(msgspec.Struct, frozen=True):
    """``mcpd/read``."""

    session: SessionId
    key: bytes
    server: str | None
    uri: str


class GetPrompt(msgspec.Struct, frozen=True):
    """``mcpd/prompt``; ``arguments`` is a JSON object or nothing."""

    session: SessionId
    key: bytes
    server: str
    name: str
    arguments: bytes | None


class ControlDone(msgspec.Struct, frozen=True):
    """The daemon has a response to a control request: ``result``, which is JSON, or ``failure``.

    A large result may be in parts. ``is_stream``: notifications follow, until the request is
    cancelled.
    """

    session: SessionId
    key: bytes
    result: bytes | tuple[bytes, ...] | None = None
    failure: Failure | None = None
    is_stream: bool = False


class Violation(msgspec.Struct, frozen=True):
    """One place where arguments do not match their schema, and what the schema expects there."""

    path: str
    message: str


class Validated(msgspec.Struct, frozen=True):
    """Arguments were checked; ``note`` says why they could not be."""

    ticket: int
    violations: tuple[Violation, ...] = ()
    note: str | None = None


class ListExamined(msgspec.Struct, frozen=True):
    """A list was looked at; ``None`` where that failed."""

    ticket: int
    examined: tuple[Examined, ...] | None


class ResultCleaned(msgspec.Struct, frozen=True):
    """A result was cleaned; ``classes`` are those of what was removed. ``None``: that failed."""

    ticket: int
    result: bytes | None
    classes: tuple[str, ...] = ()


class AcceptPins(msgspec.Struct, frozen=True):
    """``mcpd/pin_accept``: a person approves definitions, each by its kind, name and hash."""

    session: SessionId
    key: bytes
    server: str
    items: tuple[tuple[str, str, str], ...]


class Answerer(msgspec.Struct, frozen=True):
    """Who answers a question: on which surface, and with which program."""

    surface: str
    process: int | None = None
    program: str | None = None

    def __str__(self) -> str:
        return self.surface if self.program is None else f"{self.surface} ({self.program})"


class Approve(msgspec.Struct, frozen=True):
    """``mcpd/approve``: the answer to the question of this number.

    ``all_tools``: a yes is for all tools that the server has now. ``of_session``: a no is for all
    calls of the tool in that session.
    """

    session: SessionId
    key: bytes
    number: int
    answer: str
    by: Answerer
    all_tools: bool = False
    of_session: bool = False


class Forget(msgspec.Struct, frozen=True):
    """``mcpd/forget``: these answers, or those for a server or a tool; without any of them, all."""

    session: SessionId
    key: bytes
    ids: tuple[int, ...] | None = None
    server: str | None = None
    tool: str | None = None


class RulesKnown(msgspec.Struct, frozen=True):
    """The answers that an earlier daemon remembered; ``until`` counts from now."""

    rules: tuple[Rule, ...]


class RulesKept(msgspec.Struct, frozen=True):
    """The answers of ``KeepRules`` are on disk, or ``problem`` says why they are not."""

    ticket: int
    problem: str | None = None


class Draining(msgspec.Struct, frozen=True):
    """The daemon is going to end: open subscriptions are ended. Calls in flight go on."""


class Farewell(msgspec.Struct, frozen=True):
    """Nothing more is read from any client, and connections will be closed. After ``Draining``."""


class Tick(msgspec.Struct, frozen=True):
    """The time of the next deadline has come."""


Event = (
    SessionOpened
    | LeftReserve
    | FrameFromSession
    | InputEnded
    | SessionClosed
    | ServerUp
    | ProbeRead
    | FrameFromServer
    | ServerDown
    | WriteRefused
    | RequestFailed
    | EntriesChanged
    | DayBegan
    | UserStop
    | StartUnasked
    | Attach
    | Join
    | Release
    | WorkspaceKnown
    | CallTool
    | ListItems
    | ReadResource
    | GetPrompt
    | ControlDone
    | Validated
    | ListExamined
    | ResultCleaned
    | AcceptPins
    | Approve
    | Forget
    | RulesKnown
    | RulesKept
    | Draining
    | Farewell
    | Tick
)
