"""Converts the tables of a file to the schema's types; knows every spelling and alias of a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcpd.config.reading import policy_table, remote_table
from mcpd.config.reading.findings import Findings, Table
from mcpd.config.reading.remote_table import ABSENT, TRANSPORTS, URLS, Spelled, given
from mcpd.config.reading.values import (
    Reader,
    count,
    environment,
    extensions,
    filled,
    flag,
    hosts,
    kind,
    listen,
    one_of,
    origins,
    positive,
    roots,
    seconds,
    size,
    size_from,
    text,
    texts,
)
from mcpd.config.remote import RemoteConfig
from mcpd.config.schema import (
    DaemonConfig,
    HttpConfig,
    RestartConfig,
    ServerConfig,
    ToolsConfig,
)
from mcpd.formats.document import KeyPath

MILLISECONDS_FROM: Final = 1000
"""A ``timeout`` number above this is in milliseconds: some clients use seconds, others do not."""

SERVER: Final[Mapping[str, Reader]] = {
    "command": filled,
    "args": texts,
    "env": environment,
    "cwd": filled,
    "inherit_env": one_of("all", "minimal", "none"),
    "env_file": text,
    "enabled": flag,
    "start": one_of("lazy", "eager"),
    "sharing": one_of("auto", "shared", "session", "workspace"),
    "era": one_of("auto", "legacy", "modern"),
    "startup_timeout": seconds,
    "startup_timeout_max": seconds,
    "call_timeout": seconds,
    "call_timeout_max": seconds,
    "idle_timeout": seconds,
    "stop_grace": seconds,
    "stop_scope": one_of("tree", "group"),
    "max_concurrency": count,
    "queue_timeout": seconds,
    "memory_max": size,
    "retry": one_of("safe", "never"),
    "validate_arguments": flag,
    "interactive": one_of("auto", "shared", "exclusive", "off"),
    "question_timeout": seconds,
    "question_wait": seconds,
    "parked_timeout": seconds,
    "roots": roots,
    "extensions": extensions,
}
RESTART: Final[Mapping[str, Reader]] = {
    "policy": one_of("on-failure", "never"),
    "backoff": seconds,
    "backoff_max": seconds,
    "max_failures": count,
    "window": seconds,
    "failed_retry": seconds,
}
TOOLS: Final[Mapping[str, Reader]] = {"allow": texts, "deny": texts}
DAEMON: Final[Mapping[str, Reader]] = {
    "log_level": one_of("debug", "info", "warning", "error"),
    "log_format": one_of("console", "json"),
    "max_message_bytes": size_from(1024),
    "max_request_bytes": size_from(1024),
    "max_outbox_bytes": size,
    "max_buffered_bytes": size_from(1024),
    "max_concurrent_starts": count,
    "list_wait": seconds,
    "drain_timeout": seconds,
    "watch": flag,
    "shell_env": flag,
    "projects": flag,
    "ignore_env": texts,
    "log_max_bytes": size_from(1024),
    "log_backups": count,
    "logs_max_bytes": size,
}
HTTP: Final[Mapping[str, Reader]] = {
    "listen": listen,
    "auth": one_of("token", "none"),
    "allow_remote": flag,
    "allowed_origins": origins,
    "allowed_hosts": hosts,
    "session_idle": seconds,
    "max_sessions": positive,
    "json_wait": seconds,
    "keepalive": seconds,
    "stream_lifetime": seconds,
    "request_timeout": seconds,
    "replay_events": count,
}

_SECONDS_ALIASES: Final = (
    ("startup_timeout_sec", "startup_timeout"),
    ("tool_timeout_sec", "call_timeout"),
    ("timeout", "call_timeout"),
)
_DENY_ALIASES: Final = ("disabled_tools", "excluded_tools")
_TRANSPORTS: Final = ("type", "transport", "transportType")
_LOCAL: Final = ("stdio", "local")
OF_PROCESS: Final = (
    "command",
    "args",
    "env",
    "cwd",
    "inherit_env",
    "env_file",
    "stop_scope",
    "memory_max",
)
"""Keys that mean nothing for a server without a process."""

_KNOWN: Final = (
    *SERVER,
    "restart",
    "tools",
    "disabled",
    "enabled_tools",
    *_DENY_ALIASES,
    *(alias for alias, _ in _SECONDS_ALIASES),
    *_TRANSPORTS,
    *URLS,
    *remote_table.ALL,
    *policy_table.SERVER,
    *policy_table.ALIASES,
)


class Read(NamedTuple):
    """One server's table as read."""

    config: ServerConfig | None
    """The values, ``None`` if any is invalid."""

    enabled: bool
    """Whether the entry is enabled, which is known in both cases."""

    spelled: Spelled
    """Where the texts of a remote server are written."""


def server(content: object, path: KeyPath, name: str, findings: Findings) -> Read:
    """Read one server's table in any client's dialect, and record its problems in ``findings``."""
    if not isinstance(content, dict):
        findings.error(path, f"expected a table, not {kind(content)}", server=name)
        return Read(None, True, {})
    table = Table(content, path, findings, name)
    enabled = _enabled(table)
    remote, spelled = _remote(table)
    others = ("enabled", *(OF_PROCESS if given(content, URLS) else ()))
    found = table.read_all({key: SERVER[key] for key in SERVER if key not in others})
    _read_seconds_aliases(table, found)
    restart = RestartConfig(**_known(table.inner("restart", RESTART)))
    tools = _tools(table)
    policy = policy_table.server(table)
    table.warn_of_unknown(_KNOWN)
    if found.get("roots") == "session" and found.get("sharing") == "shared":
        why = "a process that all sessions share has no session's roots"
        table.error("roots", f'{why}: write sharing = "session" or "workspace", or the roots')
    if any(problem.severity == "error" for problem in findings.problems):
        return Read(None, enabled, spelled)
    config = ServerConfig(
        **_known(found),
        remote=remote,
        enabled=enabled,
        restart=restart,
        tools=tools,
        policy=policy,
    )
    return Read(config, enabled, spelled)


def daemon(tables: list[Table]) -> DaemonConfig:
    """Read the daemon's tables and merge them key by key; later values win.

    An invalid value is recorded and does not replace an earlier one.
    """
    found: dict[str, object] = {}
    for table in tables:
        found |= table.read_all(DAEMON)
        table.warn_of_unknown(DAEMON)
    return DaemonConfig(**_known(found))


def http(tables: list[Table]) -> HttpConfig:
    """Read the ``http`` tables and merge them key by key; later values win.

    An address that other machines reach is left out unless it is allowed and needs a token.
    """
    found: dict[str, object] = {}
    place: Table | None = None
    for table in tables:
        found |= table.read_all(HTTP)
        table.warn_of_unknown(HTTP)
        if "listen" in table.content:
            place = table
    config = HttpConfig(**_known(found))
    if config.allow_remote and config.auth == "token":
        return config
    refused = [address.text for address in config.addresses if not address.is_loopback]
    if place is not None and refused:
        wanted = 'allow_remote = true and auth = "token"'
        place.error("listen", f"other machines reach {', '.join(refused)}: that needs {wanted}")
    kept = tuple(text for text in config.listen if text not in refused)
    return msgspec.structs.replace(config, listen=kept)


def _known(found: dict[str, object]) -> dict[str, Any]:
    """Return ``found`` with a type that the checker accepts; the readers have validated it."""
    return found


def off_by(content: object) -> tuple[str, ...]:
    """Return the keys of one server's table that disable it."""
    disabling = {"enabled": False, "disabled": True}
    known = content if isinstance(content, dict) else {}
    return tuple(key for key, value in disabling.items() if known.get(key) is value)


def _enabled(table: Table) -> bool:
    """Return whether neither ``enabled`` nor ``disabled`` turns it off; in doubt it is off."""
    enabled, disabled = table.read("enabled", flag), table.read("disabled", flag)
    if enabled is not None and enabled == disabled:
        table.warning("disabled", "contradicts enabled, which is given too; the server is off")
    return not off_by(table.content)


def _remote(table: Table) -> tuple[RemoteConfig | None, Spelled]:
    """Read how a server is reached by URL; ``None`` for one with a command.

    Records the keys that do not go together.
    """
    key, transport = _transport(table)
    addresses = given(table.content, URLS)
    if not addresses and transport not in TRANSPORTS.values():
        if "command" not in table.content:
            table.error(None, "command is missing: expected the program to run, or a url")
        for other in given(table.content, remote_table.ALL):
            table.error(other, "is about a server that is reached by URL, and this one has none")
        return None, {}
    for other in given(table.content, OF_PROCESS):
        if other == "command":
            table.error(other, f"{', '.join(addresses)} is given too: a server has one of them")
        else:
            table.error(other, "is about a process, and a server that is reached by URL has none")
    if not addresses:
        table.error(key, "url is missing: expected the address of the server")
        return None, {}
    if transport in _LOCAL:
        table.error(key, f'"{transport}" is a process, and {addresses[0]} is given')
        return None, {}
    return remote_table.remote(table, transport or "auto")


def _transport(table: Table) -> tuple[str | None, str | None]:
    """Return the key that names what carries the messages, and what it is; ``None`` for none."""
    names = [key for key in _TRANSPORTS if table.content.get(key) not in ABSENT]
    if not names:
        return None, None
    value = table.content[names[0]]
    known = {**dict.fromkeys(_LOCAL, "stdio"), **TRANSPORTS}
    found = None if not isinstance(value, str) else known.get(value.lower().replace("_", "-"))
    if found is None:
        wrong = "an unknown word" if isinstance(value, str) else kind(value)
        table.error(names[0], f"expected one of {', '.join(known)}, not {wrong}")
    for other in names[1:]:
        if table.content[other] != value:
            table.warning(other, f"{names[0]} is given too, and counts")
    return names[0], found


def _read_seconds_aliases(table: Table, found: dict[str, object]) -> None:
    for alias, key in _SECONDS_ALIASES:
        value = table.read(alias, seconds)
        if not isinstance(value, float):
            continue
        if alias == "timeout" and value > MILLISECONDS_FROM and _is_bare(table.content[alias]):
            value /= 1000
            table.warning(
                alias,
                f"over {MILLISECONDS_FROM}, so it is taken as milliseconds: {value:g} s; "
                f'write {key} = {value:g}, or a unit, as in "{value:g}s"',
            )
        if key in table.content or key in found:
            first = key if key in table.content else "another of its names"
            table.warning(alias, f"means {key}, which is given too; {first} counts")
        else:
            found[key] = value


def _is_bare(value: object) -> bool:
    return not isinstance(value, str)


def _tools(table: Table) -> ToolsConfig:
    """Read ``tools``, which is a table or a list of allowed tools, and its aliases."""
    if isinstance(table.content.get("tools"), list):
        found = _present(allow=table.read("tools", texts))
    else:
        inner = table.within("tools")
        found = inner.read_all(TOOLS)
        inner.warn_of_unknown((*TOOLS, *policy_table.tools_with_a_mode(inner)))
    allowed = table.read("enabled_tools", texts)
    if allowed is not None and "allow" in found:
        table.warning("enabled_tools", "means tools.allow, which is given too; tools.allow counts")
    elif allowed is not None:
        found["allow"] = allowed
    for alias in _DENY_ALIASES:
        denied = table.read(alias, texts)
        if isinstance(denied, tuple):  # what is denied anywhere is denied
            earlier = found.get("deny", ())
            assert isinstance(earlier, tuple)  # the reader returns nothing else
            found["deny"] = (*earlier, *denied)
    tools = ToolsConfig(**_known(found))
    for key in ("allow", "deny"):
        policy_table.warn_of_patterns(table, "tools", getattr(tools, key))
    return tools


def _present(**values: object) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
