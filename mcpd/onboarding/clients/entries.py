"""Reads a client's entry of a server into the entry that mcpd has for the same server."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mcpd.formats.document import KeyPath
from mcpd.onboarding.clients.client import Client, Part
from mcpd.onboarding.clients.launch import (
    ALLOWED,
    COMMANDS,
    CWDS,
    DENIED,
    ENVS,
    HEADERS,
    LAUNCH,
    TOKENS,
    TYPES,
    URLS,
    Connects,
    bridge,
    flat,
    launch_words,
)
from mcpd.onboarding.clients.variables import NOTHING, Unmovable, translated

_HTTP: Final = ("http", "streamable-http", "streamablehttp")
_NO_SERVER: Final = ("builtin", "platform", "frontend", "inline_python")
"""Types of Goose's extensions that are no MCP servers."""

_UNKNOWN_TIMES: Final = ("timeout", "connectionTimeout", "startup_timeout_sec", "tool_timeout_sec")
_SPLIT_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in a client's file."""

    name: str
    path: KeyPath
    """Where it stands in its file."""

    content: Any
    """As the client has it."""

    entry: dict[str, Any] = {}
    """As mcpd has it; empty if it cannot be moved."""

    why_not: str | None = None
    """Why it cannot be moved."""

    is_shadowed: bool = False
    """Whether the client does not read it, because a more important file has the same name."""

    notes: tuple[str, ...] = ()
    """What of it is lost, or means something else in mcpd."""

    connects: Connects | None = None
    """What it runs, if that is mcpd's bridge."""


def is_server(content: Any) -> bool:
    """Return whether an element of a client's table is a server, and no extension of its own."""
    if not isinstance(content, dict):
        return True
    if content.get("type") in _NO_SERVER:
        return False
    return content.get("source") != "extension" or any(key in content for key in COMMANDS)


def read(
    name: str,
    content: Any,
    client: Client,
    path: KeyPath = (),
    *,
    directory: str | None = None,
    is_off: bool = False,
    answers: Mapping[str, str] = NOTHING,
) -> Found:
    """Read one entry.

    ``directory`` is that of the project it belongs to; ``answers`` are those to what only a person
    knows, by ``${input:ID}``.
    """
    found = Found(name=name, path=path, content=content)
    if isinstance(content, dict) and (connects := bridge(content)) is not None:
        return msgspec.structs.replace(found, connects=connects)
    reading = _Reading(client, directory, answers)
    try:
        entry = reading.run(content)
    except Unmovable as why:
        return msgspec.structs.replace(found, why_not=str(why), notes=tuple(reading.notes))
    if is_off:
        entry["enabled"] = False
    return msgspec.structs.replace(found, entry=entry, notes=tuple(reading.notes))


class _Reading:
    """The reading of one entry."""

    def __init__(self, client: Client, directory: str | None, answers: Mapping[str, str]) -> None:
        self._client = client
        self._directory = directory
        self._answers = answers
        self.notes: list[str] = []

    def run(self, written: Any) -> dict[str, Any]:
        if not isinstance(written, dict):
            raise Unmovable("it is not a table")
        content = flat(written)
        words = launch_words(content)
        addresses = [key for key in URLS if content.get(key)]
        if words and addresses:
            raise Unmovable("it has both a command and an address")
        if words:
            entry = self._process(content, words)
        elif addresses:
            entry = self._remote(content, addresses[0])
        else:
            raise Unmovable("it has neither a command nor an address")
        return entry | self._rest(content)

    # -- a process

    def _process(self, content: Mapping[str, Any], words: list[str]) -> dict[str, Any]:
        entry: dict[str, Any] = {"command": self._text(words[0], "command", "command")}
        args = [self._text(word, "args", f"args[{n}]") for n, word in enumerate(words[1:])]
        if args:
            entry["args"] = args
        if env := self._env(content):
            entry["env"] = env
        self._files(content, entry)
        if is_relative(words[0]) or any(each.startswith(("./", "../")) for each in words[1:]):
            if self._directory is None:
                entry["sharing"] = "workspace"
            elif "cwd" not in entry:
                entry["cwd"] = self._directory
        elif self._directory is not None and "cwd" not in entry:
            names = [each for each in words[1:] if each and not each.startswith(("-", "/"))]
            if any(os.path.lexists(os.path.join(self._directory, each)) for each in names):
                entry["cwd"] = self._directory
        return entry

    def _env(self, content: Mapping[str, Any]) -> dict[str, str]:
        env: dict[str, str] = {}
        names = ENVS if self._client.is_mcpds else (self._client.env,)
        for key in ENVS:
            if not content.get(key):
                continue
            if key not in names:
                self.notes.append(f"{key} means nothing in {self._client.title}, and is left out")
                continue
            written = self._table(content[key], key)
            for name, value in written.items():
                if value is None:
                    self.notes.append(f"{key}.{name} has no value, and is left out")
                else:
                    env[name] = self._text(_as_text(value, f"{key}.{name}"), "env", f"env.{name}")
        for each in content.get("env_vars") or ():  # of Codex: those to pass on
            passed = each.get("name") if isinstance(each, dict) else each
            if not isinstance(passed, str):
                raise Unmovable("env_vars is not a list of names")
            env.setdefault(passed, f"${{{passed}:-}}")
        if kept := content.get("env_keys"):
            names_kept = ", ".join(map(str, kept)) if isinstance(kept, list) else str(kept)
            raise Unmovable(f"{names_kept}: in the secret store of {self._client.title}")
        return env

    def _files(self, content: Mapping[str, Any], entry: dict[str, Any]) -> None:
        """Read the working directory, and the file of variables."""
        for key in CWDS:
            if not content.get(key):
                continue
            if not self._client.is_mcpds and key != self._client.cwd:
                self.notes.append(f"{key} means nothing in {self._client.title}, and is left out")
                continue
            cwd = self._text(_as_text(content[key], key), "cwd", key)
            if not cwd.startswith(("/", "$", "~")) and not self._client.is_mcpds:
                if self._directory is None:
                    raise Unmovable(f"{key} is relative to where the client runs")
                cwd = os.path.normpath(os.path.join(self._directory, cwd))
            entry["cwd"] = cwd
        if file := content.get("envFile") or content.get("env_file"):
            if not self._client.is_mcpds and not str(file).startswith("/"):
                raise Unmovable("envFile is relative to where the client runs")
            entry["env_file"] = file

    # -- a remote server

    def _remote(self, content: Mapping[str, Any], key: str) -> dict[str, Any]:
        written = _as_text(content[key], key)
        scheme = urlsplit(written).scheme if _SPLIT_SCHEME.match(written) else "https"
        if scheme not in ("http", "https"):
            raise Unmovable(f"its address begins with {scheme}:, which mcpd does not speak")
        for other in ("headersHelper", "authProviderType", "tcp"):
            if content.get(other):
                raise Unmovable(f"{other} is known to {self._client.title} alone")
        entry: dict[str, Any] = {"url": self._text(written, "url", key)}
        if kind := self._kind(content, key):
            entry["type"] = kind
        if headers := self._headers(content):
            entry["headers"] = headers
        if names := content.get("env_http_headers"):
            entry["env_http_headers"] = self._table(names, "env_http_headers")
        if token := next((content[each] for each in TOKENS if content.get(each)), None):
            entry["bearer_token_env_var"] = token
        for each in ("auth", "oauth", "scopes"):
            if content.get(each) not in (None, "", {}, []):
                entry[each] = self._deep(content[each])
        if scheme == "http" and not _is_loopback(written):
            entry["allow_insecure"] = True
            self.notes.append("its address is http://, which anyone on the way can read")
        return entry

    def _kind(self, content: Mapping[str, Any], key: str) -> str | None:
        word = next((content[each] for each in TYPES if isinstance(content.get(each), str)), None)
        if word is None or word.lower() in ("remote", "stdio", "local"):
            if key == "httpUrl":
                return "http"
            return "sse" if self._client.untyped_url_is_sse and word is None else None
        word = word.lower().replace("_", "-")
        if word == "sse":
            return "sse"
        if word in _HTTP:
            return "http"
        if self._client.is_mcpds and word == "auto":
            return None
        raise Unmovable(f"mcpd does not speak {word}")

    def _headers(self, content: Mapping[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        outer = content.get("requestOptions")
        for table in (*(content.get(key) for key in HEADERS), (outer or {}).get("headers")):
            for name, value in self._table(table or {}, "headers").items():
                found[name] = self._text(
                    _as_text(value, f"headers.{name}"), "headers", f"headers.{name}"
                )
        if key := content.get("apiKey"):
            token = self._text(_as_text(key, "apiKey"), "headers", "apiKey")
            found.setdefault("Authorization", f"Bearer {token}")
        return found

    # -- the rest

    def _rest(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Read the switches, the time-outs and the filters of tools."""
        entry: dict[str, Any] = {}
        if content.get("enabled") is False or content.get("disabled") is True:
            entry["enabled"] = False
        self._times(content, entry)
        allowed = [name for key in ALLOWED for name in _names(content.get(key))]
        denied = [name for key in DENIED for name in _names(content.get(key))]
        listed = _names(content.get("tools"))
        if not self._client.is_mcpds and listed and listed != ["*"]:
            allowed += listed
        tools: dict[str, Any] = {}
        if allowed:
            tools["allow"] = list(dict.fromkeys(allowed))
        if denied:
            tools["deny"] = list(dict.fromkeys(denied))
        if tools:
            entry["tools"] = tools
        if self._client.is_mcpds:  # also the keys that mcpd alone has
            known = {*LAUNCH, *TYPES, *ALLOWED, *DENIED, "enabled", "disabled", "name"}
            entry |= {key: value for key, value in content.items() if key not in known}
        return entry

    def _times(self, content: Mapping[str, Any], entry: dict[str, Any]) -> None:
        if self._client.is_mcpds:
            return  # copied
        for key, time in self._client.times.items():
            value = content.get(key)
            if isinstance(value, dict) and key == "timeout":  # opencode 2
                for each, meant in (("startup", "startup_timeout"), ("request", "call_timeout")):
                    _put_time(entry, meant, value.get(each), time.unit)
            else:
                _put_time(entry, time.key, value, time.unit)
        for key in _UNKNOWN_TIMES:
            if key in content and key not in self._client.times:
                self.notes.append(f"{key} is left out: {self._client.title} says no unit of it")

    def _deep(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value, "headers", "auth")
        if isinstance(value, list):
            return [self._deep(each) for each in value]
        if isinstance(value, dict):
            return {key: self._deep(each) for key, each in value.items()}
        return value

    def _table(self, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise Unmovable(f"{key} is not a table")
        return value

    def _text(self, text: str, part: Part, where: str) -> str:
        if self._client.is_mcpds:
            return text
        if part not in ("url", "headers") and (text == "~" or text.startswith("~/")):
            raise Unmovable(
                f"{where} begins with ~, which {self._client.title} takes as it stands and mcpd "
                "as the home directory"
            )
        return translated(text, self._client.variables, part, self._answers)


def is_relative(command: str) -> bool:
    """Return whether a command is a path that depends on the working directory."""
    return "/" in command and not command.startswith(("/", "~", "$", "{", "%"))


def _is_loopback(url: str) -> bool:
    from mcpd.config.urls import is_loopback

    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        raise Unmovable("its address is no URL") from None


def _put_time(entry: dict[str, Any], key: str, value: Any, unit: float) -> None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        seconds = round(value * unit, 6)
        entry.setdefault(key, int(seconds) if seconds == int(seconds) else seconds)


def _names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _as_text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise Unmovable(f"{where} is no text")
    return value
