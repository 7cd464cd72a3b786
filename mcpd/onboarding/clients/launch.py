"""What an entry of a server runs or reaches, in any client's spelling."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpd.onboarding.clients.variables import Unmovable, normal

COMMANDS: Final = ("command", "cmd")
ENVS: Final = ("env", "environment", "envs")
CWDS: Final = ("cwd", "working_directory")
URLS: Final = ("url", "serverUrl", "httpUrl", "uri", "baseUrl")
HEADERS: Final = ("headers", "http_headers")
TOKENS: Final = ("bearer_token_env_var", "bearerTokenEnvVar", "bearerTokenEnv")
TYPES: Final = ("type", "transport", "transportType")
ALLOWED: Final = ("enabled_tools", "includeTools", "available_tools", "enabledTools")
DENIED: Final = ("disabled_tools", "excludeTools", "disabledTools", "excluded_tools")

LAUNCH: Final = (
    *COMMANDS, "args", *ENVS, "env_vars", "env_keys", "envFile", "env_file", *CWDS, *URLS, *HEADERS,
    "env_http_headers", "requestOptions", *TOKENS, "apiKey", "auth", "oauth", "scopes",
    "headersHelper", "authProviderType",
)  # fmt: skip
"""Keys that say how a server is started or reached, in any client's spelling."""


class Connects(msgspec.Struct, frozen=True):
    """An entry that runs ``mcpctl connect``."""

    program: str
    server: str | None
    """``None`` for all servers as one."""

    socket: str | None = None
    """The daemon's socket, if the entry names it."""


def bridge(content: Mapping[str, Any]) -> Connects | None:
    """Return what an entry connects to, if it runs ``mcpctl connect``."""
    inner = flat(content)
    try:
        words = launch_words(inner)
    except Unmovable:
        return None
    if not words or os.path.basename(words[0]) != "mcpctl":
        return None
    rest: list[str] = []
    socket: str | None = None
    waiting = iter(words[1:])
    for word in waiting:
        option, equals, value = word.partition("=")
        if option in ("--socket", "--config"):
            value = value if equals else next(waiting, "")
            socket = value if option == "--socket" else socket
        else:
            rest.append(word)
    if rest[:1] != ["connect"] or "--" in rest:
        return None
    return Connects(words[0], rest[1] if len(rest) > 1 else None, socket)


def flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with its launch parameters beside its other keys."""
    found = dict(content)
    if isinstance(content.get("transport"), dict):
        found |= found.pop("transport")
    command = found.get("command")
    if isinstance(command, dict):  # an older form of Zed
        found |= {"command": command.get("path")}
        found |= {key: command[key] for key in ("args", "env") if key in command}
    return found


def identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what two entries of mcpd have in common that run or reach the same server."""

    def texts(value: Any) -> tuple[tuple[str, Any], ...]:
        known = value if isinstance(value, dict) else {}
        return tuple(sorted((str(key), _normal(each)) for key, each in known.items()))

    if url := next((entry[key] for key in URLS if entry.get(key)), None):
        headers = {
            str(key).lower(): value
            for each in (*HEADERS, "env_http_headers")
            for key, value in (entry.get(each) or {}).items()
        }
        token = next((entry[key] for key in TOKENS if entry.get(key)), None)
        if token:
            headers["authorization"] = f"Bearer ${{{token}}}"
        return ("url", _normal(url), texts(headers), repr(entry.get("auth") or entry.get("oauth")))
    words = [entry.get("command"), *(entry.get("args") or ())]
    return (
        "command",
        tuple(_normal(word) for word in words),
        texts(entry.get("env")),
        _normal(entry.get("cwd")),
        entry.get("env_file"),
    )


def _normal(value: Any) -> str:
    return normal(value) if isinstance(value, str) else "" if value is None else repr(value)


def launch_words(content: Mapping[str, Any]) -> list[str]:
    """Return the program and its arguments, as the client writes them; empty without one."""
    command = next((content[key] for key in COMMANDS if content.get(key)), None)
    args = content.get("args")
    if command is None:
        return []
    words = command if isinstance(command, list) else [command]
    words = [*words, *(args if isinstance(args, list) else [] if args is None else [None])]
    if not words or not all(isinstance(word, str) for word in words):
        raise Unmovable("its command and its arguments are not all texts")
    return words
