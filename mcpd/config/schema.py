"""The configuration as types: every key with its default and its meaning, aliases resolved."""

from __future__ import annotations

from typing import Literal

import msgspec

Seconds = float
Bytes = int


class RestartConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[servers.NAME.restart]`` table."""

    policy: Literal["on-failure", "never"] = "on-failure"
    """Whether a server that crashed is started again by itself."""

    backoff: Seconds = 0.5
    """Before the first restart; doubles at every failure, with full jitter."""

    backoff_max: Seconds = 30.0
    """What ``backoff`` grows to."""

    max_failures: int = 5
    """Deaths within ``window`` before it has answered any call: then ``failed``. 0: never."""

    window: Seconds = 60.0
    """How far back deaths count, and how long ready resets ``backoff``."""

    failed_retry: Seconds = 300.0
    """After which the next use of a failed server tries once more. 0: only a person does."""


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One ``tools`` table of a server: which of its tools are shown and may be called."""

    allow: tuple[str, ...] = ("*",)
    """Patterns of names, ``*`` for any text. A tool must match one of them."""

    deny: tuple[str, ...] = ()
    """Patterns of names that are hidden, whatever ``allow`` says."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[servers.NAME]`` table, as written: variables are resolved in ``ResolvedLaunch``."""

    command: str
    """Program to run, found on the ``PATH`` of its environment. Never given to a shell."""

    args: tuple[str, ...] = ()
    """What it is started with, each argument a string of its own."""

    env: dict[str, str] = {}
    """Set over what it inherits."""

    cwd: str | None = None
    """Directory it runs in. Default: the home directory; a workspace's server: its root."""

    inherit_env: Literal["all", "minimal", "none"] = "all"
    """What it gets of the daemon's environment."""

    env_file: str = ""
    """File of ``KEY=VALUE`` lines, from its configuration's directory; refused when others can
    read it."""

    enabled: bool = True
    """A server that is not has no process and no tools."""

    start: Literal["lazy", "eager"] = "lazy"
    """At the first use, or with the daemon."""

    sharing: Literal["auto", "shared", "session", "workspace"] = "auto"
    """Who shares a process: everybody, nobody, or the sessions of one workspace."""

    era: Literal["auto", "legacy", "modern"] = "auto"
    """Which MCP revisions it speaks, where finding out goes wrong."""

    startup_timeout: Seconds = 30.0
    """Until it has answered the handshake and listed its tools; then it is killed."""

    startup_timeout_max: Seconds = 300.0
    """What ``startup_timeout`` grows to, try by try."""

    call_timeout: Seconds = 0.0
    """How long a call may go without an answer or progress. 0: the client decides."""

    call_timeout_max: Seconds = 86400.0
    """How long a call may take in all, whatever the progress."""

    idle_timeout: Seconds = 900.0
    """Without session, call, subscription or question, until it is stopped. 0: never."""

    stop_grace: Seconds = 5.0
    """From closing stdin to SIGTERM, and again from SIGTERM to SIGKILL."""

    stop_scope: Literal["tree", "group"] = "tree"
    """What is stopped with it; ``group`` leaves descendants with a session of their own alone."""

    max_concurrency: int = 0
    """Calls at a time. 0: no limit."""

    queue_timeout: Seconds = 60.0
    """How long a call waits for its place or its turn; then ``server_busy``."""

    memory_max: Bytes = 0
    """Of the whole process tree; over it the server is restarted when idle. 0: no limit."""

    retry: Literal["safe", "never"] = "safe"
    """Whether a call that only reads is sent once more after a crash."""

    validate_arguments: bool = False
    """Check arguments against the tool's schema for sessions' calls, too."""

    interactive: Literal["auto", "shared", "exclusive", "off"] = "auto"
    """How questions from the server find the session that they are for."""

    question_timeout: Seconds = 300.0
    """How long a question may stay open; then it is answered with a refusal."""

    question_wait: Seconds = 60.0
    """How long a question with more than one possible owner is held; then it is refused."""

    parked_timeout: Seconds = 600.0
    """How long a call that waits for a modern client's input is kept."""

    roots: tuple[str, ...] | Literal["session"] = ()
    """URIs that it is told to work in, or ``session``: those of the session it belongs to."""

    extensions: tuple[str, ...] = ()
    """MCP extensions that a legacy server is told of when several clients share its process."""

    tools: ToolsConfig = ToolsConfig()
    """Which tools are shown and may be called."""

    restart: RestartConfig = RestartConfig()
    """What happens when it crashes."""


class DaemonConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The ``[daemon]`` table."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe lines that are logged."""

    log_format: Literal["console", "json"] = "console"
    """How a line of the daemon's log is written: ``TIME LEVEL NAME KEY=VALUE …`` or an object."""

    max_message_bytes: Bytes = 67108864
    """The longest line taken from a server."""

    max_request_bytes: Bytes = 9437184
    """The longest line written to a server (TypeScript servers exit at 10 MiB)."""

    max_outbox_bytes: Bytes = 0
    """What is kept for a peer that does not read. 0: twice ``max_message_bytes``."""

    max_buffered_bytes: Bytes = 536870912
    """What is kept in memory for all clients and servers together, in outboxes and as requests."""

    max_concurrent_starts: int = 0
    """Servers that may be starting at a time. 0: the number of cores, at least 4."""

    list_wait: Seconds = 5.0
    """How long an aggregate list waits for servers that are starting, and any list for one that is
    asked for it again."""

    drain_timeout: Seconds = 5.0
    """How long calls in flight may take to end when the daemon does."""

    watch: bool = True
    """Notice changes of the configuration files."""

    ignore_env: tuple[str, ...] = ()
    """More variables that do not tell ad-hoc servers apart."""

    log_max_bytes: Bytes = 10485760
    """How long a server's log file gets before it is rotated."""

    log_backups: int = 3
    """How many rotated log files of a server are kept."""

    logs_max_bytes: Bytes = 536870912
    """All logs together, those of servers that are gone included. 0: no limit."""

    @property
    def outbox_bytes(self) -> int:
        """The bound of one outbox in bytes, with its default worked out."""
        return self.max_outbox_bytes or 2 * self.max_message_bytes


class ResolvedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is started: variables and ``~`` are resolved. Holds secrets: never shown."""

    command: str
    """Program, still to be found on the ``PATH``."""

    args: tuple[str, ...]
    """Arguments after the program."""

    env: dict[str, str]
    """The entry's own variables; what else there is, ``inherit_env`` says."""

    file_env: dict[str, str] = {}
    """Those of its ``env_file``, with ``env`` over them. Secret, all of them."""

    of_workspace: bool = False
    """Whether a text of it depends on the workspace: ``workspace.placed`` makes it whole."""

    cwd: str
    """Absolute directory."""

    inherit_env: Literal["all", "minimal", "none"]
    """As in ``ServerConfig``."""

    @property
    def whole_env(self) -> dict[str, str]:
        """All that the entry says of the environment."""
        return {**self.file_env, **self.env}
