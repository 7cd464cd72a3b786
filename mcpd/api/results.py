"""Results and notifications of the control methods.

That of ``mcpd/status`` is in ``status``, and those about approvals are in ``approvals``.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

ServerResult = dict[str, Any]
"""A result as a server sent it: of ``mcpd/call``, ``mcpd/read`` and ``mcpd/prompt``."""


class Hello(TypedDict):
    """The result of ``mcpd/hello``."""

    version: str
    pid: int
    api: int
    uptime_s: float
    config: NotRequired[str | None]
    """The only configuration file, where the daemon was given one; its successor uses it too."""


class Attached(TypedDict):
    """The result of ``mcpd/attach``."""

    session: int
    server: str | None
    """``None`` is the aggregate."""
    notice: NotRequired[str]
    """Why the aggregate has no server, where it has none."""


class Tools(TypedDict):
    """The result of ``mcpd/tools``."""

    tools: list[dict[str, Any]]
    """As listed, with ``server`` and ``qualified_name``."""
    missing: NotRequired[list[str]]
    """Servers whose list is not known."""


class Prompts(TypedDict):
    """The result of ``mcpd/prompts``."""

    prompts: list[dict[str, Any]]
    """As listed, with ``server`` and ``qualified_name``."""
    missing: NotRequired[list[str]]


class Resources(TypedDict):
    """The result of ``mcpd/resources``."""

    resources: list[dict[str, Any]]
    """As listed, with ``server``."""
    resourceTemplates: list[dict[str, Any]]
    missing: NotRequired[list[str]]


class Progress(TypedDict):
    """The parameters of a ``mcpd/progress`` notification."""

    id: int
    progress: float
    total: NotRequired[float]
    message: NotRequired[str]


class Step(TypedDict):
    """One step of a start."""

    step: str
    """``start`` (launched or connected), ``handshake`` or ``list`` (its tools are listed)."""
    ok: bool
    ms: float


class Reached(TypedDict):
    """One server after ``mcpd/start``, ``mcpd/stop`` or ``mcpd/restart``."""

    name: str
    state: str
    pid: int | None
    goes_on_for: NotRequired[list[str]]
    """Servers with the same launch parameters that still use its process."""
    step: NotRequired[str]
    """The last step that a stop needed: ``eof``, ``term`` or ``kill``."""
    steps: NotRequired[list[Step]]
    """Those of its last start, of a server that is ready."""
    error: NotRequired[Any]
    """Why it is not ready, if it was one of several: a JSON-RPC error."""


class AllReached(TypedDict):
    """The result of ``mcpd/start``, ``mcpd/stop`` and ``mcpd/restart``."""

    servers: list[Reached]


class Login(TypedDict):
    """The result of ``mcpd/login``."""

    server: str
    url: NotRequired[str]
    """What a person is to open; missing where there is nothing to wait for."""
    joined: NotRequired[bool]
    """Whether somebody else has begun this sign-in."""
    reason: NotRequired[str]
    """Why nobody needs to sign in."""
    signed_in: NotRequired[SignedIn]
    """The sign-in that there is already."""


class SignedIn(TypedDict):
    """The result of ``mcpd/login_wait``."""

    server: str
    account: str | None
    """As whom, where the authorization server says it."""
    issuer: str
    scopes: list[str]
    expires: str | None
    """RFC 3339; ``None``: the server does not say."""
    renews: bool
    """Whether it is renewed without a person."""


class LoggedOut(TypedDict):
    """The result of ``mcpd/logout``."""

    server: str
    revoked: bool
    """Whether the authorization server was told, and took it."""


class SecretChanged(TypedDict):
    """The result of ``mcpd/secret_changed``."""

    name: str
    servers: list[str]
    """The servers that use it: what runs of them is replaced after its calls in flight."""


class Pasted(TypedDict):
    """The result of ``mcpd/login_paste``: it has no members."""


class Reloaded(TypedDict):
    """The result of ``mcpd/reload``."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    unchanged: list[str]
    errors: list[str]
    """All errors of the configuration, each with file, line and key."""
    applied: NotRequired[bool]
    """``False`` where a file cannot be read or parsed: the old configuration stays in force."""


class Entry(TypedDict):
    """One server in the result of ``mcpd/list``."""

    name: str
    file: str
    line: int | None
    enabled: bool
    config: dict[str, Any] | None
    """Effective values, secrets masked; ``None`` for an entry without valid ones."""
    error: str | None
    project: NotRequired[str]
    """The workspace of whose project it is: then ``name`` is ``NAME@DIRECTORY``."""


class Entries(TypedDict):
    """The result of ``mcpd/list``."""

    files: list[str]
    """All files that are looked for, whether they exist or not."""
    path: NotRequired[dict[str, Any]]
    """Which ``PATH`` servers get, and from where. Missing from a daemon of an earlier version."""
    servers: list[Entry]
    errors: list[str]


class ProjectEntry(TypedDict):
    """A server that a project offers."""

    name: str
    state: Literal["trusted", "untrusted", "changed", "never"]
    file: str
    hash: str


class Audit(TypedDict):
    """The result of ``mcpd/audit``."""

    calls: list[dict[str, Any]]
    """The newest of those that are wanted, oldest first."""


class Project(TypedDict):
    """What the files of a workspace offer."""

    dir: str
    hash: str
    """Of all entries together."""
    entries: list[ProjectEntry]
    problems: list[str]


class Projects(TypedDict):
    """The result of ``mcpd/projects``."""

    projects: list[Project]


class Trusted(TypedDict):
    """The result of ``mcpd/trust``."""

    dir: str
    trusted: list[str]
    """The servers that are trusted now, of those that were named."""


class LogLine(TypedDict):
    """One line of a log, in the result of ``mcpd/logs`` and in ``mcpd/log`` notifications."""

    time: str
    """RFC 3339, UTC, milliseconds."""
    source: Literal["stderr", "stdout", "mcpd"]
    text: str


class Logs(TypedDict):
    """The result of ``mcpd/logs``."""

    lines: Any
    """A list of ``LogLine``."""


class Events(TypedDict):
    """The result of ``mcpd/events``."""

    seq: int
    """The number of the newest event."""


class Event(TypedDict):
    """The parameters of a ``mcpd/event`` notification; further members depend on the event."""

    seq: int
    time: str
    event: str
    server: NotRequired[str]


class ShuttingDown(TypedDict):
    """The result of ``mcpd/shutdown``: it has no members."""


class PinnedItem(TypedDict):
    """One definition of a server."""

    kind: str
    """``tool``, ``prompt``, ``template`` or ``instructions``."""
    name: str
    state: str
    """``approved``, ``changed``, ``new``, ``renamed`` or ``gone``."""
    held: bool
    """Whether it is not listed, or refused when it is called."""
    parts: list[str]
    """Which parts have changed: ``text``, ``schema``, ``hints``, ``output``."""
    hash: str
    """Of what waits for a yes, or of what was approved; empty if it is gone."""
    since: str | None
    """RFC 3339, UTC."""
    volatile: bool
    was: NotRequired[str]
    """The name it had, of a renamed one."""
    approved: NotRequired[Any]
    """The definition as approved, where definitions are asked for; ``None`` of a new one."""
    current: NotRequired[Any]
    """The definition as the server has it now; ``None`` of one that is gone."""


class PinnedServer(TypedDict):
    """What is approved of one server."""

    name: str
    pin: str
    """``off``, ``warn`` or ``hold``."""
    approved_version: str
    """What the server called its version when its definitions were last approved."""
    version: str
    """And what it calls it now; empty before it has said so."""
    changed: int
    held: int
    lost: bool
    """Whether what was approved cannot be read."""
    items: list[PinnedItem]


class AllPinned(TypedDict):
    """The result of ``mcpd/pins``."""

    servers: list[PinnedServer]


class PinsAccepted(TypedDict):
    """The result of ``mcpd/pin_accept``."""

    server: str
    accepted: list[dict[str, str]]
    """The ``kind`` and the ``name`` of each."""


class InspectedServer(TypedDict):
    """What is found in the definitions of one server."""

    name: str
    coverage: str
    """``whole``, ``partial`` or, before it has listed anything, ``none``."""
    findings: list[dict[str, Any]]
    """Each with ``kind``, ``name``, ``class``, ``weight``, ``evidence`` and ``place``."""
    sanitised: list[dict[str, Any]]
    """What was removed: ``kind``, ``name``, ``class``, ``count``, ``characters``, ``hidden``."""


class Inspected(TypedDict):
    """The result of ``mcpd/inspect``."""

    servers: list[InspectedServer]
