"""Parameters of the control methods, as structs that the daemon decodes and checks.

Unknown members are ignored: newer clients may send them. ``mcpctl`` never imports this module at
run time: msgspec would slow down its start.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Raw

PARAMS_BYTES: Final = 1024 * 1024
"""The longest parameters of a control request, except those that are passed on to a server."""

MOST_NAMES: Final = 1000
"""Servers in one request, and roots of one session."""

MOST_ITEMS: Final = 10_000
"""Definitions in one request."""

MOST_CALLS: Final = 500
"""Calls of the audit in one answer."""

PATH_CHARACTERS: Final = 4096
"""Length of a directory: the kernel takes no longer path."""

Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_NAMES)]
Directory = Annotated[str, msgspec.Meta(max_length=PATH_CHARACTERS)]
Timeout = Annotated[float, msgspec.Meta(gt=0)]
"""Seconds. 0 would end a call before it began."""


class Params(msgspec.Struct):
    """Base of all parameters; on its own, those of a method that takes none."""


class HelloParams(Params):
    """Parameters of ``mcpd/hello``."""

    cwd: Directory | None = None
    """The directory from which the connection makes its control calls."""


class Client(msgspec.Struct):
    """Which program attaches, for logs and events."""

    name: str | None = None
    version: str | None = None
    pid: int | None = None


class AttachParams(Params):
    """Parameters of ``mcpd/attach``."""

    server: str | None = None
    command: dict[str, Any] | None = None
    client: Client | None = None
    cwd: Directory | None = None
    roots: Names = ()
    control: bool = True
    profile: str | None = None
    farewell: bool = False


class CallParams(Params):
    """Parameters of ``mcpd/call``."""

    server: str
    tool: str
    arguments: Raw = Raw(b"null")
    timeout: Timeout | None = None
    progress: bool = False
    approvals: bool = False
    """Whether the connection is told of a question about the call, and answers it."""


class ListingParams(Params):
    """Parameters of ``mcpd/tools``, ``mcpd/prompts`` and ``mcpd/resources``."""

    server: str | None = None


class ReadParams(Params):
    """Parameters of ``mcpd/read``."""

    uri: str
    server: str | None = None


class PromptParams(Params):
    """Parameters of ``mcpd/prompt``."""

    server: str
    name: str
    arguments: Raw = Raw(b"null")


class StatusParams(Params):
    """Parameters of ``mcpd/status``."""

    servers: Names | None = None


class ServersParams(Params):
    """Parameters of ``mcpd/start``, ``mcpd/stop`` and ``mcpd/restart``."""

    servers: Names


class PinsParams(Params):
    """Parameters of ``mcpd/pins``."""

    servers: Names | None = None
    definitions: bool = False
    """Whether the definitions themselves are wanted."""


class PinItem(msgspec.Struct):
    """One definition that is accepted, with the hash that was shown."""

    kind: str
    name: str
    hash: str


class PinAcceptParams(Params):
    """Parameters of ``mcpd/pin_accept``."""

    server: str
    items: Annotated[tuple[PinItem, ...], msgspec.Meta(max_length=MOST_ITEMS)]


class InspectParams(Params):
    """Parameters of ``mcpd/inspect``."""

    servers: Names | None = None


class AuditParams(Params):
    """Parameters of ``mcpd/audit``: which calls; a member that is absent asks for nothing."""

    since: int | None = None
    """Milliseconds since the epoch."""
    server: str | None = None
    tool: str | None = None
    """A pattern, as ``client``."""
    client: str | None = None
    token: str | None = None
    outcome: Literal["ok", "error", "denied", "cancelled", "timeout", "crashed"] | None = None
    slow: float | None = None
    """Seconds that they took at least."""
    lines: Annotated[int, msgspec.Meta(ge=0, le=MOST_CALLS)] = 50


class LoginParams(Params):
    """Parameters of ``mcpd/login``, ``mcpd/login_wait`` and ``mcpd/logout``."""

    server: str


class PasteParams(Params):
    """Parameters of ``mcpd/login_paste``."""

    server: str
    address: str
    """Where the browser ended."""


class SecretParams(Params):
    """Parameters of ``mcpd/secret_changed``."""

    name: str


class ProjectsParams(Params):
    """Parameters of ``mcpd/projects``."""

    dir: Directory | None = None


class ShownEntry(msgspec.Struct):
    """A server of a project, with the hash of what a person was shown."""

    name: str
    hash: str


class TrustParams(Params):
    """Parameters of ``mcpd/trust``. Without entries it says whether the caller may."""

    dir: Directory
    entries: Annotated[tuple[ShownEntry, ...], msgspec.Meta(max_length=MOST_NAMES)] = ()


class ApprovalsParams(Params):
    """Parameters of ``mcpd/approvals``."""

    follow: bool = False
    id: str | None = None
    """Only this question, with all of its arguments and the definition of its tool."""


class ApproveParams(Params):
    """Parameters of ``mcpd/approve``."""

    id: str
    answer: Literal["once", "session", "1h", "always", "no"]
    all_tools: bool = False
    """A yes that is remembered is for all tools that the server has now."""
    session: bool = False
    """A no is for all calls of the tool in that session."""


class ForgetParams(Params):
    """Parameters of ``mcpd/forget``."""

    ids: Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_NAMES)] | None = None
    server: str | None = None
    tool: str | None = None
    all: bool = False


class LogsParams(Params):
    """Parameters of ``mcpd/logs``."""

    server: str | None = None
    lines: int = 100
    follow: bool = False


class EventsParams(Params):
    """Parameters of ``mcpd/events``."""

    servers: Names | None = None
    since: int | None = None


class ShutdownParams(Params):
    """Parameters of ``mcpd/shutdown``."""

    drain: float | None = None
    """Seconds that calls in flight may take."""
