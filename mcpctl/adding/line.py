"""The entries of the servers that a command line of ``mcpctl add`` describes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mcpctl import questions
from mcpctl.adding.words import BEFORE, URL
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.presets import Preset

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

PATHS = ("DIRECTORY", "FILE")
"""Needs of presets that are paths: the daemon has another directory than this command."""


class Line:
    """What the command line says of the servers to add."""

    def __init__(self, words: Sequence[str], given: Mapping[str, Any]) -> None:
        self._words = list(words)
        self._given = given
        self._used: set[str] = set()
        """Variables of --env that stand elsewhere in the entry."""

    def typed(self) -> dict[str, dict[str, Any]]:
        """Return the server whose command or URL was typed."""
        url = self._given["url"]
        rest = self._words[1:]
        if not self._words or not (rest or url):
            raise click.UsageError(
                "Say what the server is called, and its command or URL: mcpctl add NAME -- COMMAND"
            )
        if url is None and len(rest) == 1 and URL.fullmatch(rest[0]):
            url = rest.pop()
        if url is not None and rest:
            raise click.UsageError("A server has a URL or a command, but not both.")
        transport = self._given["transport"]
        if url is None and transport not in (None, "stdio"):
            raise click.UsageError(f"--transport {transport} is for a URL: http://… or https://…")
        if url is not None and transport == "stdio":
            raise click.UsageError("--transport stdio is for a command, and this is a URL.")
        entry: dict[str, Any]
        if url is not None:
            entry = {"url": url}
        else:
            is_project = self._given["scope"] == "project"
            program = rest[0] if is_project or "/" not in rest[0] else _absolute(rest[0])
            entry = {"command": program, **({"args": rest[1:]} if rest[1:] else {})}
        return {self._words[0]: self._with_options(entry)}

    def from_preset(self, app: App) -> tuple[dict[str, dict[str, Any]], bool]:
        """Return a known server, and whether a person signs in to it.

        What it needs is given, or asked for on a terminal.
        """
        from mcpd.onboarding import presets

        known = presets.read()
        name = self._given["preset"]
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(
                f"There is no preset {name!r}.{meant} mcpctl presets lists them."
            )
        preset = known[name]
        before = click.get_current_context().meta.get(BEFORE, 0)
        called, more = (self._words[0] if before else name), self._words[before:]
        if before > 1 or called.startswith(("/", "~", ".")):
            raise click.UsageError(
                f"Write -- before the arguments: add --preset {name} [NAME] -- …"
            )
        variables = self._variables()
        token = {}
        if preset.bearer is not None and self._given["bearer"]:
            token = {preset.bearer: self._given["bearer"]}
        elif preset.bearer in variables:
            token = {preset.bearer: variables[preset.bearer]}
        values = token | _needed(app, name, preset, more, variables | token)
        self._used = set(token)
        entry = preset.entry(values)
        further = more[len(preset.places) :]
        if further and preset.url is not None:
            raise click.UsageError(f"{name} is reached by URL, and takes no arguments.")
        if further:
            entry["args"] += further
        return {called: self._with_options(entry)}, preset.signs_in

    def from_text(self, app: App, text: str) -> dict[str, dict[str, Any]]:
        """Return the servers in a text, in any client's format."""
        from mcpd.onboarding.clients import snippet

        if not text.strip():
            raise ConfigError("there is no text to read a server from")
        found = snippet.read(text)
        if len(self._words) > 1:
            raise click.UsageError(f"{self._words[1]}: the text has the whole entry.")
        if not any(isinstance(one.content, dict) for one in found):
            raise ConfigError("there is no server in the text: neither a command nor an address")
        named = self._words[0] if self._words else ""
        if named and len(found) > 1:
            raise click.UsageError(f"There are {len(found)} servers, and only one can be {named}.")
        entries: dict[str, dict[str, Any]] = {}
        left: list[str] = []
        for one in found:
            name = named or one.name
            if one.why_not is not None:
                left.append(f"{name or 'the server'}: {one.why_not}")
                continue
            if not name:
                raise click.UsageError("This is an entry without a name: say one, as NAME.")
            for note in one.notes:
                app.note(f"{name}: {note}")
            entries[name] = self._with_options(dict(one.entry))
        if left:
            raise ConfigError("; ".join(left))
        return entries

    # -- options -----------------------------------------------------------------------------------

    def _with_options(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry with what the options say."""
        given = self._given
        is_remote = "url" in entry
        env = {key: text for key, text in self._variables().items() if key not in self._used}
        if env:
            if is_remote:
                raise click.UsageError("--env is for a command; a URL has --header and --bearer.")
            entry["env"] = {**entry.get("env", {}), **env}
        if given.get("cwd"):
            if is_remote:
                raise click.UsageError("--cwd is for a command, and not for a URL.")
            entry["cwd"] = _absolute(given["cwd"])
        if headers := self._headers():
            if not is_remote:
                raise click.UsageError(
                    "--header and --bearer are for a URL, and not for a command."
                )
            entry["headers"] = {**entry.get("headers", {}), **headers}
        if is_remote and given.get("transport"):
            entry["type"] = given["transport"].replace("streamable-", "")
        if given.get("sharing"):
            entry["sharing"] = given["sharing"]
        if given.get("timeout"):
            timeout = given["timeout"]
            entry["call_timeout"] = int(timeout) if timeout.is_integer() else timeout
        for option, key in (("include_tools", "allow"), ("exclude_tools", "deny")):
            if given.get(option):
                patterns = [name.strip() for name in given[option].split(",")]
                entry["tools"] = {**entry.get("tools", {}), key: patterns}
        if given.get("disabled"):
            entry["enabled"] = False
        return entry

    def _variables(self) -> dict[str, str]:
        found = {}
        for text in self._given.get("env") or ():
            name, equals, value = text.partition("=")
            if not NAME.fullmatch(name):
                raise click.UsageError(f"--env {name}: expected a variable, K=V or K.")
            found[name] = value if equals else f"${{{name}}}"
        return found

    def _headers(self) -> dict[str, str]:
        found = {}
        for text in self._given.get("headers") or ():
            name, colon, value = text.partition(":")
            if not colon or not name.strip():
                raise click.UsageError(f"--header {name.strip()}: expected a header, 'K: V'.")
            found[name.strip()] = value.strip()
        bearer = self._given.get("bearer")
        if self._given.get("bearer_variable"):
            bearer = f"${{{self._given['bearer_variable']}}}"
        if bearer:
            found["Authorization"] = f"Bearer {bearer}"
        return found


def _needed(
    app: App, name: str, preset: Preset, words: Sequence[str], variables: Mapping[str, str]
) -> dict[str, str]:
    """Return what a preset needs, by name: given, in the environment, or asked for."""
    values = dict(zip(preset.places, words, strict=False))
    for need, what in preset.needs.items():
        if need in values or need in variables:
            continue
        is_argument = need in preset.places
        if not is_argument and need in os.environ:
            app.note(f"{name} takes {need} from the environment")
            continue
        if not questions.can_ask(app):
            how = f"-- {need}" if is_argument else f"--env {need}=…"
            raise click.UsageError(
                f"{name} needs {need}: {what}. For example: mcpctl add --preset {name} {how}"
            )
        app.note(f"{name} needs {need}: {what}")
        if is_argument:
            values[need] = questions.answer(need)
        elif typed := questions.answer(
            f"{need} (not shown; Enter: taken from the environment)", is_secret=True, default=""
        ):
            values[need] = typed.replace("$", "$$")
    for need in PATHS:
        if need in values:
            values[need] = _absolute(values[need])
    return values


def _absolute(path: str) -> str:
    """Return a path as it means the same in another directory."""
    return path if path.startswith(("/", "~", "$")) else os.path.abspath(path)
