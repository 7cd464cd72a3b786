"""The configuration as types: every key with its default and its meaning."""

from __future__ import annotations

from typing import Literal

import msgspec

from mcpd.config.addresses import Address, parse
from mcpd.config.remote import RemoteConfig

Seconds = float
Bytes = int


class RestartConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[servers.NAME.restart]`` table."""

    policy: Literal["on-failure", "never"] = "on-failure"
    """Whether a server that crashed is restarted automatically."""

    backoff: Seconds = 0.5
    """Delay before the first restart; doubles with each failure, with full jitter."""

    backoff_max: Seconds = 30.0
    """Upper bound of ``backoff``."""

    max_failures: int = 5
    """Crashes within ``window`` without an answered call until it is ``failed``. 0: never."""

    window: Seconds = 60.0
    """The period in which crashes are counted, and the uptime that resets ``backoff``."""

    failed_retry: Seconds = 300.0
    """Time after which the next use of a failed server starts it again. 0: only by hand."""


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One ``tools`` table of a server: which of its tools are shown and may be called."""

    allow: tuple[str, ...] = ("*",)
    """Patterns of names, ``*`` for any text. A tool must match one of them."""

    deny: tuple[str, ...] = ()
    """Patterns of names that are hidden even if ``allow`` matches."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[servers.NAME]`` table as written; ``ResolvedCommand`` has its variables resolved."""

    command: str = ""
    """Program to run, found on the ``PATH`` of its environment. Never given to a shell."""

    remote: RemoteConfig | None = None
    """How it is reached by URL, in place of everything about a process."""

    args: tuple[str, ...] = ()
    """Arguments of the program, one string each."""

    env: dict[str, str] = {}
    """Variables that override the inherited ones."""

    cwd: str | None = None
    """Working directory. Default: the home directory; for a workspace's server its root."""

    inherit_env: Literal["all", "minimal", "none"] = "all"
    """Which part of the daemon's environment it inherits."""

    env_file: str = ""
    """File of ``KEY=VALUE`` lines, relative to the configuration file; refused if other users can
    read it."""

    enabled: bool = True
    """A disabled server has no process and no tools."""

    start: Literal["lazy", "eager"] = "lazy"
    """Started at its first use, or with the daemon."""

    sharing: Literal["auto", "shared", "session", "workspace"] = "auto"
    """Which sessions share a process: all, none, or those of one workspace."""

    era: Literal["auto", "legacy", "modern"] = "auto"
    """The MCP era it speaks, if detection fails."""

    startup_timeout: Seconds = 30.0
    """Time to complete the handshake and list its tools; then it is killed."""

    startup_timeout_max: Seconds = 300.0
    """Upper bound of ``startup_timeout``, which grows with each attempt."""

    call_timeout: Seconds = 0.0
    """How long a call may go without an answer or progress. 0: the client decides."""

    call_timeout_max: Seconds = 86400.0
    """How long a call may take in total, even with progress."""

    idle_timeout: Seconds = 900.0
    """Time without session, call, subscription or question until it is stopped. 0: never."""

    stop_grace: Seconds = 5.0
    """Time from closing stdin to SIGTERM, and again from SIGTERM to SIGKILL."""

    stop_scope: Literal["tree", "group"] = "tree"
    """Which processes are stopped; ``group`` spares descendants in a session of their own."""

    max_concurrency: int = 0
    """Concurrent calls. 0: no limit."""

    queue_timeout: Seconds = 60.0
    """How long a call waits in the queue; then it fails with ``server_busy``."""

    memory_max: Bytes = 0
    """Limit of the whole process tree; above it the server is restarted when idle. 0: no limit."""

    retry: Literal["safe", "never"] = "safe"
    """Whether a read-only call is sent again after a crash."""

    validate_arguments: bool = False
    """Whether arguments of sessions' calls are checked against the tool's schema."""

    interactive: Literal["auto", "shared", "exclusive", "off"] = "auto"
    """How the session that a server's question belongs to is determined."""

    question_timeout: Seconds = 300.0
    """How long a question may stay unanswered; then it is refused."""

    question_wait: Seconds = 60.0
    """How long a question that could belong to several sessions is held; then it is refused."""

    parked_timeout: Seconds = 600.0
    """How long a call that waits for a modern client's input is kept."""

    roots: tuple[str, ...] | Literal["session"] = ()
    """URIs offered to it as roots, or ``session``: those of the session it belongs to."""

    extensions: tuple[str, ...] = ()
    """MCP extensions declared to a legacy server whose process several clients share."""

    tools: ToolsConfig = ToolsConfig()
    """Which tools are shown and may be called."""

    restart: RestartConfig = RestartConfig()
    """How it is restarted after a crash."""


class DaemonConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The ``[daemon]`` table."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""

    log_format: Literal["console", "json"] = "console"
    """How a line of the daemon's log is written: ``TIME LEVEL NAME KEY=VALUE …`` or an object."""

    max_message_bytes: Bytes = 67108864
    """The longest line accepted from a server."""

    max_request_bytes: Bytes = 9437184
    """The longest line written to a server (TypeScript servers exit at 10 MiB)."""

    max_outbox_bytes: Bytes = 0
    """Buffer for a peer that does not read. 0: twice ``max_message_bytes``."""

    max_buffered_bytes: Bytes = 536870912
    """Memory for all clients and servers together, in outboxes and as requests."""

    max_concurrent_starts: int = 0
    """Servers that may start at the same time. 0: the number of cores, at least 4."""

    list_wait: Seconds = 5.0
    """How long an aggregate list waits for servers that are starting, and any list for a server
    whose list is requested again."""

    drain_timeout: Seconds = 5.0
    """How long a daemon that ends waits for calls in flight."""

    watch: bool = True
    """Whether changes of the configuration files are applied automatically."""

    shell_env: bool = True
    """Whether variables that the daemon lacks are looked up in the user's login shell."""

    projects: bool = True
    """Whether sessions in a project have the servers that its own files name."""

    ignore_env: tuple[str, ...] = ()
    """Additional variables that do not distinguish ad-hoc servers."""

    log_max_bytes: Bytes = 10485760
    """Size at which a server's log file is rotated."""

    log_backups: int = 3
    """Rotated log files that are kept for a server."""

    logs_max_bytes: Bytes = 536870912
    """Size of all logs together, including those of removed servers. 0: no limit."""

    @property
    def outbox_bytes(self) -> int:
        """The limit of one outbox in bytes."""
        return self.max_outbox_bytes or 2 * self.max_message_bytes


class TrustConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The ``[trust]`` table."""

    trusted_projects: tuple[str, ...] = ()
    """Directories whose projects are trusted without a question, whatever their files say.

    Each has all that is below it; ``*`` stands for any text within one part of the path.
    """

    keyring: Literal["auto", "system", "file", "off"] = "auto"
    """Where secrets of ``${keyring:NAME}`` are kept."""


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The ``[http]`` table."""

    listen: tuple[str, ...] = ()
    """Addresses that clients reach the daemon at by HTTP. None: it does not listen."""

    auth: Literal["token", "none"] = "token"
    """What a client has to show."""

    allow_remote: bool = False
    """Whether an address may be one that other machines reach."""

    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may send requests."""

    allowed_hosts: tuple[str, ...] = ()
    """Names of a reverse proxy, besides those of loopback."""

    session_idle: Seconds = 1800.0
    """Time without request or stream until a session is closed. 0: never."""

    max_sessions: int = 1000
    """Sessions at a time; the one that is needed least makes room for a new one."""

    json_wait: Seconds = 5.0
    """A response that comes sooner, with nothing before it, is JSON; otherwise a stream.

    0: on a session always a stream.
    """

    keepalive: Seconds = 15.0
    """Time between comments on a quiet stream. 0: none."""

    stream_lifetime: Seconds = 0.0
    """Time until a stream is closed that its client resumes (2025-11-25). 0: no limit."""

    request_timeout: Seconds = 30.0
    """Time for a request to arrive. 0: no limit."""

    replay_events: int = 256
    """Events of a stream that are kept for a client that resumes it."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses in ``listen``."""
        return tuple(found for text in self.listen if (found := parse(text)) is not None)


class ResolvedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A server's command with variables and ``~`` resolved. Holds secrets, so it is never shown."""

    command: str
    """Program; not yet searched for on the ``PATH``."""

    args: tuple[str, ...]
    """Arguments after the program."""

    env: dict[str, str]
    """The entry's own variables, in addition to the inherited ones."""

    file_env: dict[str, str] = {}
    """The variables of its ``env_file``, which ``env`` overrides. All of them are secret."""

    of_workspace: bool = False
    """Whether a text has a placeholder for the workspace: see ``workspace.placed``."""

    cwd: str
    """Absolute directory."""

    inherit_env: Literal["all", "minimal", "none"]
    """As in ``ServerConfig``."""

    @property
    def whole_env(self) -> dict[str, str]:
        """All variables that the entry sets."""
        return {**self.file_env, **self.env}
