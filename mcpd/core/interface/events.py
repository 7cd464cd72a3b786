"""What happens outside, as the mux is told of it: one closed union of frozen structs."""

from __future__ import annotations

import msgspec

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.entries import Entry
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Principal


class SessionOpened(msgspec.Struct, frozen=True, gc=False):
    """A connection was accepted; ``in_reserve``: for control requests alone."""

    session: SessionId
    principal: Principal
    in_reserve: bool = False


class Admitted(msgspec.Struct, frozen=True):
    """A connection is in the reserve no more: it may become a session."""

    session: SessionId


class FrameFromSession(msgspec.Struct, frozen=True, gc=False):
    """A client sent a line."""

    session: SessionId
    frame: Frame | Oversized


class InputEnded(msgspec.Struct, frozen=True):
    """A client sends nothing more; it still reads."""

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
    """There is no process to send to any more, or there was none to begin with.

    ``is_planned``: it was told to stop. ``comes_back``: the next start follows by itself.
    """

    slot: SlotId
    failure: Failure
    is_planned: bool
    comes_back: bool


class WriteRefused(msgspec.Struct, frozen=True):
    """A line was not written: the server does not read, and its bound is reached.

    ``wire_id`` is 0 where it was no request.

    ``is_gone``: its stdin is closed, so its end is about to be reported.
    """

    slot: SlotId
    wire_id: int
    is_gone: bool = False


class EntriesChanged(msgspec.Struct, frozen=True):
    """The configuration, whole, in its order; an ad-hoc server is an entry like any other."""

    entries: tuple[Entry, ...]


class Hold(msgspec.Struct, frozen=True):
    """A person stopped a server (``failure``: what requests get), or lets it go on (``None``)."""

    server: str
    failure: Failure | None


class Reserve(msgspec.Struct, frozen=True):
    """A process of this server is to run without anybody having asked it for something."""

    server: str


class Attach(msgspec.Struct, frozen=True):
    """``mcpd/attach``, checked: what the session is on from now on."""

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


class Locate(msgspec.Struct, frozen=True):
    """``mcpd/hello`` told from where a connection's control calls are made."""

    session: SessionId
    workspace: str | None


class CallTool(msgspec.Struct, frozen=True):
    """``mcpd/call``; ``timeout`` is the whole time in seconds, ``None`` for none of its own."""

    session: SessionId
    key: bytes
    server: str
    tool: str
    arguments: bytes | None
    timeout: float | None
    wants_progress: bool


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
    """The daemon has answered a control request: ``result`` is JSON, or there is a failure.

    ``is_stream``: notifications follow, until the request is cancelled.
    """

    session: SessionId
    key: bytes
    result: bytes | None = None
    failure: Failure | None = None
    is_stream: bool = False


class Violation(msgspec.Struct, frozen=True):
    """Where arguments do not fit a schema, and what it wants there."""

    path: str
    message: str


class Validated(msgspec.Struct, frozen=True):
    """Arguments were checked; ``note`` says why they could not be."""

    ticket: int
    violations: tuple[Violation, ...] = ()
    note: str | None = None


class Draining(msgspec.Struct, frozen=True):
    """The daemon is about to end: what only ends with it ends now."""


class Farewell(msgspec.Struct, frozen=True):
    """No connection is read any more, and all of them are about to be closed."""


class Tick(msgspec.Struct, frozen=True):
    """A deadline has come."""


Event = (
    SessionOpened
    | Admitted
    | FrameFromSession
    | InputEnded
    | SessionClosed
    | ServerUp
    | ProbeRead
    | FrameFromServer
    | ServerDown
    | WriteRefused
    | EntriesChanged
    | Hold
    | Reserve
    | Attach
    | Join
    | Release
    | Locate
    | CallTool
    | ListItems
    | ReadResource
    | GetPrompt
    | ControlDone
    | Validated
    | Draining
    | Farewell
    | Tick
)
