"""One server's entry: its values, how it is started, what of it may be shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from mcpd.config import tables
from mcpd.config.document import Document
from mcpd.config.findings import Findings
from mcpd.config.interpolate import Piece, Unresolved, joined, resolve
from mcpd.config.problems import KeyPath, Problem
from mcpd.config.schema import ResolvedLaunch, ServerConfig
from mcpd.config.secrets import MASK, Shown, is_secret_name, show, show_arguments

NAME_LENGTH_MAX = 200


class ShownLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch as it may be shown: ``~`` resolved, variables by their name, secrets masked."""

    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    cwd: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A server as configured.

    ``config`` is ``None`` for an entry whose values are wrong, ``launch`` also for one with a
    variable that is not set; ``error`` then says so in one line, with file, line and key. A
    disabled server whose variables are not set has no ``launch`` and no ``error`` either.
    ``secrets`` are values of 8 characters or more, to be masked in what the server writes.
    """

    name: str
    file: str = ""
    line: int | None = None
    enabled: bool = True
    config: ServerConfig | None = None
    launch: ResolvedLaunch | None = None
    shown: ShownLaunch | None = None
    error: str | None = None
    secrets: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry is resolved against."""

    env: Mapping[str, str]
    """Where variables come from."""

    cwd: str
    """Absolute directory of servers that name none."""

    since: str | None = None
    """Since when, for people, a daemon has had ``env``; ``None`` for the present command."""

    literal: bool = False
    """Text is taken as it is: a shell has expanded variables and ``~`` already."""

    is_ad_hoc: bool = False
    """The entry comes from a client: a relative ``cwd`` is one within its directory."""


def masked(entry: Entry) -> dict[str, Any]:
    """Return the effective values of an entry, secrets masked, as data that JSON can hold.

    Empty for an entry whose values are wrong: nobody can tell what in it is secret.
    """
    if entry.config is None or entry.shown is None:
        return {}
    values: dict[str, Any] = msgspec.to_builtins(entry.config)
    values |= msgspec.to_builtins(entry.shown)
    return values


def entry_from_json(
    obj: object,
    *,
    name: str,
    env: Mapping[str, str],
    cwd: str,
    literal: bool = False,
) -> Entry:
    """Read a server entry that came over the socket, with the schema and checks of a file's.

    ``env`` is where variables come from, and ``cwd`` the absolute directory of the client.
    ``literal`` takes every text as it is, for a command line that a shell has expanded.
    Never raises: what is wrong is in ``error`` and ``problems``.
    """
    findings = Findings("", None)
    around = Surroundings(env=env, cwd=cwd, literal=literal, is_ad_hoc=True)
    return build(obj, ("command",), name, findings, around)


def build(
    content: object, path: KeyPath, name: str, findings: Findings, around: Surroundings
) -> Entry:
    """Turn one server's table into an entry. ``findings`` is to be its own, and still empty."""
    config, enabled = tables.server(content, path, name, findings)
    launch = shown = None
    secrets: frozenset[str] = frozenset()
    if config is not None:
        launch, shown, secrets = _Resolving(config, path, name, findings, around).run()
    problems = tuple(findings.problems)
    return Entry(
        name=name,
        file=findings.file,
        line=_line(findings.document, path),
        enabled=enabled,
        config=config,
        launch=launch,
        shown=shown,
        error=_first_error(problems),
        secrets=secrets,
        problems=problems,
    )


def name_fault(name: str) -> str | None:
    """Return what is wrong with a server's name, ``None`` for a good one."""
    if not 1 <= len(name) <= NAME_LENGTH_MAX:
        return f"expected a name of 1 to {NAME_LENGTH_MAX} characters"
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in name):
        return "expected a name without control characters"
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "expected a name of whole characters (it has half of a surrogate pair)"
    return None


def _line(document: Document | None, path: KeyPath) -> int | None:
    return document.place_of_key(path)[0] if document else None


def _first_error(problems: tuple[Problem, ...]) -> str | None:
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        return None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}"


class _Resolving:
    """The way from an entry's texts to a launch; every text that has no value is recorded."""

    def __init__(
        self,
        config: ServerConfig,
        path: KeyPath,
        name: str,
        findings: Findings,
        around: Surroundings,
    ) -> None:
        self._config = config
        self._path = path
        self._name = name
        self._findings = findings
        self._around = around
        self._is_whole = True

    def run(self) -> tuple[ResolvedLaunch | None, ShownLaunch, frozenset[str]]:
        config = self._config
        command = self._resolve(("command",), config.command)
        arguments = [
            self._resolve(("args", number), argument) for number, argument in enumerate(config.args)
        ]
        env = {key: self._resolve(("env", key), value) for key, value in config.env.items()}
        cwd = self._cwd()
        if self._is_whole and not joined(command):
            self._fault(("command",), "resolves to nothing: expected the program to run")
        shown_parts = [
            show(command),
            *show_arguments(arguments),
            *(show(pieces, secret=is_secret_name(key)) for key, pieces in env.items()),
            show(cwd),
        ]
        secrets = frozenset().union(*(part.secrets for part in shown_parts))
        shown = self._shown(shown_parts, secrets)
        if not self._is_whole:
            return None, shown, secrets
        launch = ResolvedLaunch(
            command=joined(command),
            args=tuple(joined(pieces) for pieces in arguments),
            env={key: joined(pieces) for key, pieces in env.items()},
            cwd=joined(cwd),
            inherit_env=config.inherit_env,
        )
        return launch, shown, secrets

    def _resolve(self, key: KeyPath, template: str) -> tuple[Piece, ...]:
        if self._around.literal:
            return (Piece(template),) if template else ()
        try:
            return resolve(template, self._around.env)
        except Unresolved as wrong:
            hint = "" if wrong.variable is None else f". {self._hint(wrong.variable)}"
            self._fault(key, f"{wrong}{hint}")
            return (Piece(template),)

    def _cwd(self) -> tuple[Piece, ...]:
        if self._config.cwd is None:
            return (Piece(self._around.cwd),)
        pieces = self._resolve(("cwd",), self._config.cwd)
        path = joined(pieces)
        if not self._is_whole or path.startswith("/"):
            return pieces
        if self._around.is_ad_hoc:
            return (Piece(os.path.join(self._around.cwd, "")), *pieces)
        self._fault(("cwd",), 'expected a directory that begins with "/" or "~/"')
        return pieces

    def _shown(self, parts: list[Shown], secrets: frozenset[str]) -> ShownLaunch:
        """Mask each secret wherever else it is written out, and lay the parts out again."""
        longest_first = sorted(secrets, key=len, reverse=True)
        texts = []
        for part in parts:
            text = part.text
            for secret in longest_first:
                text = text.replace(secret, MASK)
            texts.append(text)
        args_end = 1 + len(self._config.args)
        return ShownLaunch(
            command=texts[0],
            args=tuple(texts[1:args_end]),
            env=dict(zip(self._config.env, texts[args_end:-1], strict=True)),
            cwd=texts[-1],
        )

    def _hint(self, variable: str) -> str:
        since = self._around.since
        if since is None:
            whose = "What counts is the environment that mcpd is started with"
        else:
            whose = f"What counts is the daemon's environment, as it has been since {since}"
        return f"{whose}: type `export {variable}=…`, then `mcpctl down` and `mcpctl up`"

    def _fault(self, key: KeyPath, message: str) -> None:
        self._is_whole = False
        record = self._findings.error if self._config.enabled else self._findings.warning
        record((*self._path, *key), message, server=self._name)
