"""The result of ``mcpd/status``, which ``mcpctl status --json`` prints: a public format."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

State = Literal[
    "stopped",
    "starting",
    "ready",
    "backoff",
    "failed",
    "login",
    "stopping",
    "disabled",
    "misconfigured",
    "untrusted",
]


class NofileStatus(TypedDict):
    """File descriptors of the daemon."""

    soft: int | None
    """The limit that is in force; ``None`` where there is none."""
    hard: int | None
    """The hard limit, to which the soft one was raised at the start."""
    open: int | None
    """How many are open; ``None`` where the system does not report it."""


class SessionStatus(TypedDict):
    """One session."""

    session: int
    server: str | None
    """The server whose endpoint it is on; ``None`` is the aggregate."""
    client: str | None
    """The name its client gave, with the pid of the process behind it, or its token."""


class OtherDaemon(TypedDict):
    """A daemon on another socket."""

    pid: int
    socket: str


class DaemonStatus(TypedDict):
    """The daemon itself."""

    pid: int
    version: str
    uptime_s: float
    socket: str
    sessions: int
    """The number of sessions, on every endpoint."""
    clients: NotRequired[list[SessionStatus]]
    """The sessions. Missing from a daemon of an earlier version."""
    tables: dict[str, int]
    """How many requests, questions and subscriptions each table holds: 0 in an idle daemon."""
    nofile: NotRequired[NofileStatus]
    """Missing from a daemon of an earlier version."""
    problems: NotRequired[list[str]]
    """What the daemon cannot write or use, a sentence each."""
    others: NotRequired[list[OtherDaemon]]
    """Other daemons of this home directory that run."""
    http: NotRequired[list[str]]
    """The addresses on which it listens for HTTP."""
    approvals_open: NotRequired[int]
    """Questions whether a call may run that nobody has answered; missing where none is asked."""
    declining: NotRequired[list[str]]
    """Clients that refuse such questions by themselves."""


class StartingStatus(TypedDict):
    """The progress of a start."""

    for_s: float | None
    """Seconds since its process was spawned; ``None`` while it waits to be spawned."""
    limit_s: float
    """Seconds that the start may take; 0: no limit."""
    installing: bool
    """Whether a package runner (``npx``, ``uvx``) may still be installing the server."""


class InstanceStatus(TypedDict):
    """One process of a server that has one per session or workspace."""

    key: str
    pid: int | None
    state: State
    sessions: int
    uptime_s: float | None
    rss_bytes: int | None
    clients: NotRequired[list[str]]
    """Names of the clients that use it, as far as they gave one."""
    responsive: NotRequired[bool | None]
    starting: NotRequired[StartingStatus]


class TurnStatus(TypedDict):
    """The session that has the turn: its calls may be in flight, and be asked questions."""

    session: int
    since_s: float
    client: NotRequired[str | None]


class WaitingStatus(TypedDict):
    """A session that waits for a turn."""

    session: int
    for_s: float
    client: NotRequired[str | None]


class InteractiveStatus(TypedDict):
    """How a server's questions are assigned to sessions."""

    mode: Literal["auto", "shared", "exclusive", "off"]
    """The setting of the entry."""
    asks: bool
    """Whether it has asked before; with ``auto``, sessions take turns from then on."""
    turn: TurnStatus | None
    waiting: list[WaitingStatus]
    """In the order in which they get the turn."""


class TrustStatus(TypedDict, total=False):
    """What is asked about a server's calls, and what has become of its definitions.

    The first two are there where calls are asked about, the others where anything judges the
    definitions.
    """

    approval: str
    """Which calls: ``ask``, ``trusted``, ``writes``; ``auto``: those that ``ask`` names."""
    open: int
    """Questions that nobody has answered."""
    pin: str
    """``off``, ``warn`` or ``hold``."""
    changed: int
    """Definitions that differ from what was approved."""
    held: int
    """Definitions that are not listed, or refused when they are called."""
    findings: int
    """Findings in them, hard and soft."""
    lost: bool
    """Only if what was approved cannot be read."""
    volatile: list[str]
    """Names of definitions that change all the time."""
    waiting: list[str]
    """Names of definitions that differ; at most ten."""


class ServerStatus(TypedDict):
    """One configured or ad-hoc server."""

    name: str
    """Of a project's server: ``NAME@DIRECTORY``."""
    project: NotRequired[str]
    """The workspace whose sessions alone know it."""
    state: State
    held: bool
    """Stopped by a person, until ``start``, ``restart`` or a change of its entry."""
    enabled: bool
    transport: str
    """``stdio``, ``http`` or ``sse``."""
    url: NotRequired[str]
    """Of a remote server, without credentials and query. It has ``auth`` and ``latency_ms`` too."""
    auth: NotRequired[str]
    """How requests to it are authorised: ``none``, ``bearer``, …"""
    latency_ms: NotRequired[float | None]
    """From the last request to the beginning of its response; ``None`` without a connection."""
    waits: NotRequired[str]
    """What a request to it waits for before it is sent again, such as ``Retry-After``."""
    sharing: str
    sharing_reason: str | None
    """Why, if that is not what its entry says."""
    interactive: NotRequired[InteractiveStatus]
    era: str | None
    protocol_version: str | None
    server_info: dict[str, Any] | None
    left_out: NotRequired[list[str]]
    """Capabilities that it refused in the handshake, such as ``elicitation.form``."""
    pid: int | None
    pids: list[int]
    """Its whole process tree."""
    generation: int
    """How many processes it has had."""
    uptime_s: float | None
    restarts: int
    """How many of their starts were not planned."""
    sessions: int
    """Sessions on the server's own endpoint."""
    in_flight: int
    calls: int
    errors: int
    """``calls`` and ``errors`` count ``tools/call``."""
    rss_bytes: int | None
    """Memory of the whole tree; ``None`` without a process."""
    tools: int | None
    noise: NotRequired[int]
    """Lines on its stdout that were not messages."""
    noise_reason: NotRequired[str | None]
    """What was wrong with the last of them."""
    responsive: NotRequired[bool | None]
    """``False`` while a signal has stopped one of its processes; ``None`` while it has none."""
    stopped_pids: NotRequired[list[int]]
    """The stopped processes."""
    silent_s: NotRequired[float | None]
    """Seconds without any output while a request waits for its answer."""
    last_error: str | None
    last_error_at: NotRequired[str | None]
    """When that was: RFC 3339, UTC, milliseconds."""
    last_error_kind: NotRequired[str | None]
    """The ``kind`` of that error."""
    trust: NotRequired[TrustStatus]
    """Only where something of it is configured."""
    starting: NotRequired[StartingStatus]
    """Only while its state is ``starting``; of several processes, the first that starts."""
    instances: NotRequired[list[InstanceStatus]]


class Status(TypedDict):
    """The result of ``mcpd/status``."""

    daemon: DaemonStatus
    servers: list[ServerStatus]
