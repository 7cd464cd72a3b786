"""One server's entry: its values, its resolved command, and the parts that may be shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from mcpd.config import commandline
from mcpd.config.endpoint import Endpoint
from mcpd.config.files import envfile
from mcpd.config.problems import Problem
from mcpd.config.reading import tables
from mcpd.config.reading.findings import Findings
from mcpd.config.remote import RemoteConfig, as_written
from mcpd.config.schema import ResolvedCommand, ServerConfig
from mcpd.config.texts import secretnames, workspace
from mcpd.config.texts.interpolate import Piece, Unresolved, Variables, joined, resolve
from mcpd.config.texts.resolving import Resolving, Surroundings
from mcpd.config.texts.secrets import (
    Shown,
    is_secret_name,
    secret_parts,
    show,
    show_arguments,
)
from mcpd.errors import ConfigError
from mcpd.formats.document import Document, KeyPath
from mcpd.redact import Redactor

_COMMAND_LINE = (
    "a whole command line: its first word is taken as the program and the others as its "
    'arguments; write command = "…" and args = ["…", "…"]'
)
_ARGUMENTS_IN_COMMAND = (
    "no program has this name, blanks and all: what follows its first word belongs in args"
)
_NOT_SHARED = (
    "one process for everybody has no workspace, and this entry names ${workspaceFolder}: leave "
    'it out, or write "workspace" or "session"'
)
_TWO_IN_ONE = (
    "an option and its value in one argument, which is passed on as one; if they are two, write "
    'them as two: ["-x", "…"]'
)


_SECRET_ARGUMENT = (
    "every user of this machine can see the arguments of a process (ps): a server that takes the "
    "secret from a variable should have it in env"
)


class ShownCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command as it may be shown: ``~`` resolved, variables by their name, secrets masked."""

    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    cwd: str


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server as configured.

    ``config`` is ``None`` if a value is invalid. A server with a command has ``launch`` and
    ``shown``, one that is reached by URL ``remote`` and ``shown_remote``, with variables resolved
    and as it may be shown. ``launch`` and ``remote`` are ``None`` also if a variable is not set.
    ``error`` is then one line with the file, the line and the key. A disabled server with a
    variable that is not set, and one that ``awaits`` some, have none of them. ``secrets`` are the
    values of 8 or more characters that are masked in the server's output.
    """

    name: str
    file: str = ""
    line: int | None = None
    enabled: bool = True
    config: ServerConfig | None = None
    launch: ResolvedCommand | None = None
    shown: ShownCommand | None = None
    remote: RemoteConfig | None = None
    shown_remote: RemoteConfig | None = None
    error: str | None = None
    secrets: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    named_files: tuple[str, ...] = ()
    """The absolute paths of the files that it names: variables, certificates, keys."""

    unset: str | None = None
    """The variable that is not set, if that is the ``error``; editing the file cannot set it."""

    awaits: tuple[str, ...] = ()
    """Variables that the daemon lacks, if the login shell was not asked for them yet.

    The entry is not resolved, and has no ``error``, until then.
    """

    secret_names: tuple[str, ...] = ()
    """The names of the secrets that it gets when it starts; ``launch`` and ``remote`` have
    placeholders for them."""

    off_by: tuple[str, ...] = ()
    """The keys that disable it: ``enabled``, ``disabled`` or both."""

    @property
    def is_resolved(self) -> bool:
        """Whether it says completely what to start or where to connect."""
        return self.launch is not None or self.remote is not None


def masked(entry: ServerEntry) -> dict[str, Any]:
    """Return the effective values of an entry for JSON, with secrets masked.

    Empty for an entry with invalid values, whose secrets cannot be recognised.
    """
    if entry.config is None:
        return {}
    values = as_in_a_table(entry.config)
    del values["remote"]
    if entry.shown_remote is not None:
        for key in tables.OF_PROCESS:
            del values[key]
        return {**as_written(entry.shown_remote), **values}
    if entry.shown is None:
        return {}
    values |= msgspec.to_builtins(entry.shown)
    return values


def as_in_a_table(config: ServerConfig) -> dict[str, Any]:
    """Return the values of a server's table under the keys that they have there."""
    values: dict[str, Any] = msgspec.to_builtins(config)
    values |= values.pop("policy")
    return values


def entry_from_json(
    obj: object,
    *,
    name: str,
    env: Mapping[str, str],
    cwd: str,
    literal: bool = False,
) -> ServerEntry:
    """Read a server entry received over the socket, with the checks for an entry in a file.

    Variables are resolved from ``env``; ``cwd`` is the absolute directory of the client.
    ``literal`` uses every text as it is, for a command line that a shell has expanded. Never
    raises: problems are in ``error`` and ``problems``.
    """
    findings = Findings("", None)
    around = Surroundings(env=env, cwd=cwd, literal=literal, is_ad_hoc=True)
    return build(obj, ("command",), name, findings, around)


def build(
    content: object, path: KeyPath, name: str, findings: Findings, around: Surroundings
) -> ServerEntry:
    """Turn one server's table into an entry. ``findings`` must be empty and for this entry only."""
    variables = Variables(around.env)
    around = msgspec.structs.replace(around, env=variables)
    config, enabled, spelled = tables.server(content, path, name, findings)
    launch = shown = remote = shown_remote = None
    secrets: frozenset[str] = frozenset()
    resolving: Resolving | None = None
    awaits: tuple[str, ...] = ()
    of_table = len(findings.problems)
    if config is not None and config.remote is not None:
        resolving = endpoint = Endpoint(
            config.remote, spelled, path, name, findings, around, is_enabled=config.enabled
        )
        remote, shown_remote, secrets = endpoint.run()
    elif config is not None:
        resolving = command = _Command(config, path, name, findings, around)
        launch, shown, secrets = command.run()
        config = command.config
    if around.login is None and enabled and variables.lacking:
        awaits = tuple(sorted(variables.lacking))
        launch = remote = None
        del findings.problems[of_table:]  # they are not faults yet
    problems = tuple(findings.problems)
    return ServerEntry(
        name=name,
        file=findings.file,
        line=_line(findings.document, path),
        enabled=enabled,
        config=config,
        launch=launch,
        shown=shown,
        remote=remote,
        shown_remote=shown_remote,
        error=_first_error(problems),
        secrets=secrets,
        problems=problems,
        named_files=() if resolving is None else tuple(resolving.files),
        unset=None if resolving is None or awaits else resolving.unset,
        awaits=awaits,
        secret_names=() if resolving is None else tuple(sorted(resolving.secret_names)),
        off_by=tables.off_by(content),
    )


def _line(document: Document | None, path: KeyPath) -> int | None:
    return document.place_of_key(path)[0] if document else None


def _first_error(problems: tuple[Problem, ...]) -> str | None:
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        return None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}"


class _Command(Resolving):
    """Resolves the command of an entry."""

    def __init__(
        self,
        config: ServerConfig,
        path: KeyPath,
        name: str,
        findings: Findings,
        around: Surroundings,
    ) -> None:
        super().__init__(path, name, findings, around, is_enabled=config.enabled)
        self._config = config

    @property
    def config(self) -> ServerConfig:
        """The entry's values; a command line in one string is split into program and arguments."""
        return self._config

    def run(self) -> tuple[ResolvedCommand | None, ShownCommand, frozenset[str]]:
        if not self._around.literal:
            self._split_command()
        config = self._config
        command = self.resolve(("command",), config.command)
        arguments = [
            self._argument(("args", number), text) for number, text in enumerate(config.args)
        ]
        env = {
            key: self.resolve(("env", key), value, takes_secrets=True)
            for key, value in config.env.items()
        }
        cwd = self._cwd()
        file_env = self._file_env()
        if self.is_whole and not joined(command):
            self.fault(("command",), "resolves to nothing: expected the program to run")
        texts = [joined(each) for each in (command, *arguments, *env.values(), cwd)]
        of_workspace = any(map(workspace.is_named_in, texts))
        if of_workspace:
            self._check_sharing()
        shown_parts = [
            show(command),
            *show_arguments(arguments),
            *(show(pieces, secret=is_secret_name(key)) for key, pieces in env.items()),
            show(cwd),
        ]
        secrets = frozenset().union(
            *(part.secrets for part in shown_parts), *map(secret_parts, file_env.values())
        )
        shown = self._shown(shown_parts, secrets)
        if not self.is_whole:
            return None, shown, secrets
        launch = ResolvedCommand(
            command=joined(command),
            args=tuple(joined(pieces) for pieces in arguments),
            env={key: joined(pieces) for key, pieces in env.items()},
            cwd=joined(cwd),
            inherit_env=config.inherit_env,
            file_env=file_env,
            of_workspace=of_workspace,
        )
        return launch, shown, secrets

    def _argument(self, key: KeyPath, template: str) -> tuple[Piece, ...]:
        pieces = self.resolve(key, template, takes_secrets=True)
        if any(secretnames.is_named_in(piece.text) for piece in pieces):
            self.warn(key, _SECRET_ARGUMENT)
        return pieces

    def _check_sharing(self) -> None:
        """Record the settings that contradict one process per workspace."""
        if self._config.sharing == "shared":
            self.fault(("sharing",), _NOT_SHARED)
        if self._config.start == "eager":
            self.warn(("start",), "there is no workspace yet: it starts with the first session")

    def _split_command(self) -> None:
        """Split a ``command`` that is a command line, and warn of arguments that look like two."""
        config = self._config
        for number, argument in enumerate(config.args):
            if commandline.is_option_and_value(argument):
                self.warn(("args", number), _TWO_IN_ONE)
        if not commandline.has_blanks(config.command):
            return
        try:
            words = commandline.split(config.command, self._is_program)
        except commandline.Unbalanced as wrong:
            words = None
            if not config.args:
                self.fault(("command",), f"expected one program, not a command line with {wrong}")
        if words is None:
            return
        if config.args:
            self.warn(("command",), _ARGUMENTS_IN_COMMAND)
            return
        self._config = msgspec.structs.replace(config, command=words[0], args=tuple(words[1:]))
        self.warn(("command",), _COMMAND_LINE)

    def _is_program(self, template: str) -> bool:
        """Return whether a part of ``command``, once resolved, is the name of an existing file."""
        env, cwd = self._around.env, self._around.cwd
        try:
            command = joined(resolve(template, env))
            cwd = os.path.join(cwd, joined(resolve(self._config.cwd or "", env)))
            path = joined(resolve(self._config.env.get("PATH", env.get("PATH", "")), env))
        except Unresolved:
            return False
        return commandline.is_there(command, cwd, path)

    def _cwd(self) -> tuple[Piece, ...]:
        if self._config.cwd is None:
            return (Piece(self._around.cwd),)
        pieces = self.resolve(("cwd",), self._config.cwd)
        path = joined(pieces)
        if not self.is_whole or path.startswith(("/", workspace.FOLDER)):
            return pieces
        if self._around.is_ad_hoc or self._around.workspace is not None:
            return (Piece(os.path.join(self._around.cwd, "")), *pieces)
        self.fault(("cwd",), 'expected a directory that begins with "/" or "~/"')
        return pieces

    def _file_env(self) -> dict[str, str]:
        """Return the variables of ``env_file``; empty if it cannot be read (then recorded)."""
        path = self.file(("env_file",), self._config.env_file)
        if path is None:
            return {}
        if not self._config.enabled:  # the file may exist on another machine only
            return {}
        try:
            return envfile.read(path)
        except ConfigError as error:
            self.fault(("env_file",), error.message)
            return {}

    def _shown(self, parts: list[Shown], secrets: frozenset[str]) -> ShownCommand:
        """Mask each secret in all other texts too, and build the command from the texts."""
        redactor = Redactor(secrets)
        texts = [redactor.mask(part.text) for part in parts]
        args_end = 1 + len(self._config.args)
        return ShownCommand(
            command=texts[0],
            args=tuple(texts[1:args_end]),
            env=dict(zip(self._config.env, texts[args_end:-1], strict=True)),
            cwd=texts[-1],
        )
