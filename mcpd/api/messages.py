"""Parameters, results and errors of the control methods that ``mcpctl`` uses."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Hello(TypedDict):
    """The result of ``mcpd/hello``."""

    version: str
    pid: int
    api: int
    uptime_s: float
    config: NotRequired[str | None]
    """The file that it was told to use alone, if it was; its successor is to use the same."""


class ErrorData(TypedDict, total=False):
    """``data`` of an error of ours. A server's own error has no ``kind`` that we know."""

    kind: str
    server: str
    retryable: bool
    hint: str
    """What to do about it, one line."""
    near: list[str]
    """Names like the one that was not found."""
    path: str
    """Where in the arguments the first violation is: ``items[2].name``, ``(root)`` for all."""
    violations: list[Violation]
    stderr: list[str]
    """The last lines of a server that ended."""
    exit_code: int
    signal: str
    outcome_unknown: bool
    errno: str
    searched: list[str]
    """Directories in which a command was looked for."""
    limit: str
    """The setting that was exceeded."""
    servers: list[Reached]
    """After a start or restart of several, of which some failed: what became of each."""


class Violation(TypedDict):
    """One thing that is wrong with the arguments of a call."""

    path: str
    message: str


class Call(TypedDict):
    """The parameters of ``mcpd/call``."""

    server: str
    tool: str
    arguments: NotRequired[dict[str, Any]]
    timeout: NotRequired[float]
    """Seconds, from receipt to answer."""
    progress: NotRequired[bool]


class Progress(TypedDict):
    """The parameters of a ``mcpd/progress`` notification."""

    id: int
    progress: float
    total: NotRequired[float]
    message: NotRequired[str]


class Reached(TypedDict):
    """One server after ``mcpd/start``, ``mcpd/stop`` or ``mcpd/restart``."""

    name: str
    state: str
    pid: int | None
    goes_on_for: NotRequired[list[str]]
    """Servers with the same launch parameters, for whom the process of this one still runs."""
    step: NotRequired[str]
    """How far a stop had to go: ``eof``, ``term`` or ``kill``."""
    error: NotRequired[dict[str, Any]]
    """Why it is not ready, where it was one of several: a JSON-RPC error."""


class Reloaded(TypedDict):
    """The result of ``mcpd/reload``."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    unchanged: list[str]
    errors: list[str]
    """All that stand, each with file, line and key."""
    applied: NotRequired[bool]
    """``False`` where a file cannot be read or parsed: what was in force stays so."""


class Entry(TypedDict):
    """One server in the result of ``mcpd/list``."""

    name: str
    file: str
    line: int | None
    enabled: bool
    config: dict[str, Any] | None
    """Effective values, secrets masked; ``None`` for an entry that has none that are valid."""
    error: str | None


class Entries(TypedDict):
    """The result of ``mcpd/list``."""

    files: list[str]
    """All that were looked for, whether they exist or not."""
    servers: list[Entry]
    errors: list[str]


class LogLine(TypedDict):
    """One line of a log, in the result of ``mcpd/logs`` and in ``mcpd/log`` notifications."""

    time: str
    """RFC 3339, UTC, milliseconds."""
    source: Literal["stderr", "stdout", "mcpd"]
    text: str


class Event(TypedDict):
    """The parameters of a ``mcpd/event`` notification; further members depend on the event."""

    seq: int
    time: str
    event: str
    server: NotRequired[str]
