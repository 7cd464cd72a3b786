"""The snapshot of ``mcpd/status`` and of ``mcpctl status --json``: a public format."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

State = Literal[
    "stopped", "starting", "ready", "backoff", "failed", "stopping", "disabled", "misconfigured"
]


class NofileStatus(TypedDict):
    """The daemon's descriptors."""

    soft: int | None
    """The limit that is in force; ``None`` where there is none."""
    hard: int | None
    """What it could be raised to; it was, at the start."""
    open: int | None
    """How many are open, where that can be told."""


class SessionStatus(TypedDict):
    """One session."""

    session: int
    server: str | None
    """The server whose endpoint it is on; ``None`` is the aggregate."""
    client: str | None
    """What its client calls itself, with the pid of the process behind it."""


class DaemonStatus(TypedDict):
    """The daemon itself."""

    pid: int
    version: str
    uptime_s: float
    socket: str
    sessions: int
    """All sessions, on whatever endpoint."""
    clients: NotRequired[list[SessionStatus]]
    """Who they are. Missing from a daemon of an earlier version."""
    tables: dict[str, int]
    """What is remembered for requests, questions and subscriptions under way; idle, nothing is."""
    nofile: NotRequired[NofileStatus]
    """Missing from a daemon of an earlier version."""
    problems: NotRequired[list[str]]
    """What the daemon cannot write, a sentence each."""


class StartingStatus(TypedDict):
    """How far a start is."""

    for_s: float | None
    """Since its process was spawned; ``None`` while it waits for its turn."""
    limit_s: float
    """What it gets in all; 0: no limit."""
    installing: bool
    """Whether a package runner has perhaps not come to the server yet."""


class InstanceStatus(TypedDict):
    """One process of a server that has one per session or workspace."""

    key: str
    pid: int | None
    state: State
    sessions: int
    uptime_s: float | None
    rss_bytes: int | None
    clients: NotRequired[list[str]]
    """The names of those who use it, where they have some."""
    responsive: NotRequired[bool | None]
    starting: NotRequired[StartingStatus]


class TurnStatus(TypedDict):
    """Who has the turn: whose calls may be in flight, and may be asked questions."""

    session: int
    since_s: float
    client: NotRequired[str | None]


class WaitingStatus(TypedDict):
    """Who waits for a turn."""

    session: int
    for_s: float
    client: NotRequired[str | None]


class InteractiveStatus(TypedDict):
    """How questions of a server find the session that they are for."""

    mode: Literal["auto", "shared", "exclusive", "off"]
    """As its entry says."""
    asks: bool
    """Whether it is known to ask; with ``auto`` sessions take turns then."""
    turn: TurnStatus | None
    waiting: list[WaitingStatus]
    """In the order in which they wait."""


class ServerStatus(TypedDict):
    """One configured or ad-hoc server."""

    name: str
    state: State
    held: bool
    """Stopped by a person, until ``start``, ``restart`` or a change of its entry."""
    enabled: bool
    transport: str
    sharing: str
    sharing_reason: str | None
    """Why, where that is not simply what its entry says."""
    interactive: NotRequired[InteractiveStatus]
    era: str | None
    protocol_version: str | None
    server_info: dict[str, Any] | None
    left_out: NotRequired[list[str]]
    """Capabilities of clients that it refuses to be told of, such as ``elicitation.form``."""
    pid: int | None
    pids: list[int]
    """The whole tree."""
    generation: int
    """Counts every process."""
    uptime_s: float | None
    restarts: int
    """Counts the unplanned ones."""
    sessions: int
    """Those on the server's own endpoint."""
    in_flight: int
    calls: int
    errors: int
    """``calls`` and ``errors`` count ``tools/call``."""
    rss_bytes: int | None
    """Of the whole tree."""
    tools: int | None
    noise: NotRequired[int]
    """Lines on its stdout that were no messages."""
    noise_reason: NotRequired[str | None]
    """What was wrong with the last of them."""
    responsive: NotRequired[bool | None]
    """``False`` while a signal has stopped one of its processes; ``None`` while it has none."""
    stopped_pids: NotRequired[list[int]]
    """Those that it has stopped."""
    silent_s: NotRequired[float | None]
    """For how long it has said nothing while it owes an answer."""
    last_error: str | None
    last_error_at: NotRequired[str | None]
    """When that was: RFC 3339, UTC, milliseconds."""
    last_error_kind: NotRequired[str | None]
    """As the ``kind`` of an error."""
    starting: NotRequired[StartingStatus]
    """While its state is that; of several processes, the first of those that start."""
    instances: NotRequired[list[InstanceStatus]]


class Status(TypedDict):
    """The result of ``mcpd/status``."""

    daemon: DaemonStatus
    servers: list[ServerStatus]
