"""Adds servers to mcpd's own configuration, removes them, and switches them on and off."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from mcpd import paths
from mcpd.config.entry import build
from mcpd.config.files import trust
from mcpd.config.files.candidates import SERVER_TABLES, candidates
from mcpd.config.names import name_fault
from mcpd.config.problems import Problem
from mcpd.config.reading.findings import Findings
from mcpd.config.texts.interpolate import Unresolved, resolve
from mcpd.config.texts.resolving import Surroundings
from mcpd.editing import replace
from mcpd.editing.edits import Drop, Edit, Put
from mcpd.editing.file import File, parse
from mcpd.errors import ConfigError
from mcpd.onboarding import own, shown
from mcpd.onboarding.clients.reading import placed
from mcpd.onboarding.clients.snippet import format_of
from mcpd.onboarding.own import Own

PROJECT_FILE: Final = ".mcp.json"
PROJECT_TABLE: Final = "mcpServers"

UNSET: Final = "/unset"
"""Replaces each ``${VAR}`` where only the form of an entry is checked: it is a path as well."""


class Place(NamedTuple):
    """Where an entry stands."""

    file: str
    path: tuple[str, str]
    """Its table, and its name."""


class Scope:
    """The files in which servers are looked for and changed: the configuration's, or a project's.

    ``explicit`` is ``--config``; ``project`` the directory of a project, whose file then counts
    alone.
    """

    def __init__(
        self,
        explicit: str | None,
        project: str | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._explicit = explicit
        self._env = env
        self._project = None if project is None else os.path.join(project, PROJECT_FILE)

    @property
    def files(self) -> tuple[str, ...]:
        """The files, the least important first."""
        if self._project is not None:
            return (self._project,)
        return candidates(self._explicit, self._env)

    def target(self) -> Own:
        """Return what is configured, with the file to which servers are added."""
        if self._project is not None:
            return Own(path=self._project, table=PROJECT_TABLE, entries={})
        return own.read(self._explicit, self._env)

    def places(self) -> dict[str, list[Place]]:
        """Return where each server stands; the last place of a name is the one that counts.

        Raises ``ConfigError``, with the line, for a file that cannot be parsed.
        """
        found: dict[str, list[Place]] = {}
        for file in self.files:
            raw = trust.read(file)
            for path in () if raw is None else entries_of(file, raw):
                found.setdefault(path[1], []).append(Place(file, path))
        return found

    def own_file(self) -> str:
        """Return the file that a person edits: the target, also where it cannot be parsed."""
        for file in self.files:
            raw = trust.read(file)
            try:
                entries_of(file, raw or b"")
            except ConfigError:
                if raw is not None and os.access(file, os.W_OK):
                    return file
        return self.target().path

    def add(self, entries: Mapping[str, Mapping[str, Any]]) -> str:
        """Add servers after those that there are, and return the file.

        A file that then has a secret in the clear can be read by its owner alone.

        Raises ``ConfigError``, and changes nothing, for a name that is taken or cannot be used, and
        for a file that cannot be parsed or written.
        """
        for name in entries:
            if fault := name_fault(name):
                raise ConfigError(f"{name!r}: {fault}")
        taken = self.places()
        for name in entries:
            if name in taken:
                raise _taken(name, taken[name][-1].file)
        found = self.target()
        own.add(found, entries, private=any(map(shown.secrets, entries.values())))
        return found.path

    def remove(self, names: Iterable[str]) -> list[Place]:
        """Remove servers with their comments, and return where they stood.

        Raises ``ConfigError``, and changes nothing, for a name that does not exist.
        """
        places = [place for found in self._found(names).values() for place in found]
        self._change(places, lambda file, place: [Drop(place.path)])
        return places

    def switch(self, names: Iterable[str], *, is_on: bool) -> list[Place]:
        """Switch servers on or off, and return where they stand.

        Raises ``ConfigError``, and changes nothing, for a name that does not exist.
        """
        places = [found[-1] for found in self._found(names).values()]

        def edits(file: File, place: Place) -> Iterator[Edit]:
            entry = file.data[place.path[0]].get(place.path[1])
            if not isinstance(entry, dict):
                return
            if is_on:
                yield from (
                    Drop((*place.path, key))
                    for key, off in (("enabled", False), ("disabled", True))
                    if entry.get(key) is off
                )
                return
            if "disabled" in entry:
                yield Put((*place.path, "disabled"), True)
            if "enabled" in entry or "disabled" not in entry:
                yield Put((*place.path, "enabled"), False)

        self._change(places, edits)
        return places

    # -- inside ------------------------------------------------------------------------------------

    def _found(self, names: Iterable[str]) -> dict[str, list[Place]]:
        """Return the places of names in files that can be changed."""
        places = self.places()
        chosen = {}
        for name in dict.fromkeys(names):
            if name not in places:
                near = get_close_matches(name, places, n=3)
                raise ConfigError(
                    f"there is no server {name!r} in {' or '.join(self._read())}",
                    hint=f"did you mean {' or '.join(near)}?" if near else None,
                    near=near,
                )
            mine = [place for place in places[name] if os.access(place.file, os.W_OK)]
            if not mine or mine[-1] != places[name][-1]:
                raise ConfigError(
                    f"{name} stands in {places[name][-1].file}, which you cannot change"
                )
            chosen[name] = mine
        return chosen

    def _read(self) -> list[str]:
        found = [file for file in self.files if os.path.exists(file)]
        return found or [self.target().path]

    def _change(
        self, places: Sequence[Place], edits: Callable[[File, Place], Iterable[Edit]]
    ) -> None:
        for file in dict.fromkeys(place.file for place in places):
            here = [place for place in places if place.file == file]

            def changed(
                raw: bytes | None, file: str = file, here: list[Place] = here
            ) -> bytes | None:
                if raw is None:
                    return None
                before = _parsed(file, raw)
                return before.edited([e for place in here for e in edits(before, place)]).encode()

            replace.change(file, changed)


def entries_of(file: str, raw: bytes) -> dict[tuple[str, str], Any]:
    """Return the servers in the content of a file, by table and name.

    Raises ``ConfigError``, with the line, if it cannot be parsed.
    """
    data = _parsed(file, raw).data
    tables = data if isinstance(data, dict) else {}
    return {
        (table, name): entry
        for table in SERVER_TABLES
        for name, entry in (tables[table].items() if isinstance(tables.get(table), dict) else ())
    }


def _variables(text: str) -> list[str]:
    known: dict[str, str] = {}
    while True:
        try:
            resolve(text, known)
        except Unresolved as error:
            if error.variable is None or error.variable in known:
                return list(known)
            known[error.variable] = UNSET
        else:
            return list(known)


def _taken(name: str, file: str) -> ConfigError:
    return ConfigError(
        f"there is a server {name!r} already, in {file}",
        hint=f"choose another name, or first: mcpctl remove {shlex.quote(name)}",
    )


def faults(name: str, entry: Mapping[str, Any], env: Mapping[str, str]) -> list[Problem]:
    """Return what is wrong with an entry, or may be: errors first.

    A variable that is not set is no error: what counts is the environment of the daemon.
    """
    known = {**dict.fromkeys(variables(entry), UNSET), **env}
    around = Surroundings(env=known, cwd=paths.home(env))
    found = build(dict(entry), ("servers", name), name, Findings("", None), around)
    return sorted(found.problems, key=lambda each: each.severity != "error")


def variables(entry: Any) -> list[str]:
    """Return the variables in the texts of an entry that have no default there."""
    return list(dict.fromkeys(_variables_in(entry)))


def _variables_in(value: Any) -> list[str]:
    match value:
        case str():
            return _variables(value)
        case list() | tuple():
            return [name for each in value for name in _variables_in(each)]
        case dict():
            return [name for each in value.values() for name in _variables_in(each)]
    return []


def _parsed(file: str, raw: bytes) -> File:
    form = format_of(file)
    try:
        return parse(raw, "toml" if form == "toml" else "jsonc")
    except ConfigError as error:
        raise ConfigError(placed(file, error), **error.details) from None
