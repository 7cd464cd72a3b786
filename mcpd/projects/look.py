"""A project as a person looks at it: what waits, what each server would run, what has changed."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from mcpd.config.load import load
from mcpd.projects import files, kept
from mcpd.projects.files import Project
from mcpd.projects.kept import Kept
from mcpd.projects.states import State, states
from mcpd.projects.workspace import workspace_of

NOT_SHOWN = "something of it that is not shown here is different"


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a workspace offer, and what a person has said of it."""

    project: Project
    states: dict[str, State]
    kept: Kept
    users: frozenset[str]
    """The names of the user's own servers."""

    def untrusted(self, names: Collection[str] = ()) -> list[str]:
        """Return the servers that are not trusted, of those that are named, if any are."""
        return [
            name
            for name, state in self.states.items()
            if state != "trusted" and (not names or name in names)
        ]

    def shown(self, name: str) -> list[str]:
        """Return what a server would run and get; of one that has changed, with the difference."""
        offer = self.project.offers[name]
        lines = offer.lines(self.project.directory)
        before = self.kept.answer(name)
        if self.states[name] == "changed" and before is not None:
            gone = [f"- {line}" for line in before.shown if line not in lines]
            new = [line if line in before.shown else f"+ {line}" for line in lines]
            lines = [*new, *gone] if gone or new != lines else [*lines, NOT_SHOWN]
        if name in self.users:
            lines.append(f"replaces your server {name} in this project")
        return lines

    def where(self, name: str) -> str:
        """Return the file and the line of a server, from the project's directory."""
        offer = self.project.offers[name]
        return f"{os.path.relpath(offer.file, self.project.workspace)}:{offer.line}"

    def document(self) -> dict[str, Any]:
        """Return it all as JSON, with secrets masked."""
        return {
            "dir": self.project.workspace,
            "hash": self.project.hash,
            "entries": [self._entry(name) for name in self.project.offers],
            "problems": [str(problem) for problem in self.project.problems],
        }

    def _entry(self, name: str) -> dict[str, Any]:
        offer = self.project.offers[name]
        env = offer.content.get("env")
        return {
            "name": name,
            "state": self.states[name],
            "hash": offer.hash,
            "file": offer.file,
            "line": offer.line,
            "env": sorted(env) if isinstance(env, dict) else [],
            "variables": offer.variables(),
            "keyring": offer.keyring(),
            "programs": offer.programs(self.project.directory),
            "replaces": name in self.users,
            "shown": self.shown(name),
        }


def look(
    directory: str | None, *, state_dir: str, config: str | None, env: Mapping[str, str]
) -> Look:
    """Look at the project of a directory, of the current one by default.

    ``config`` is the only configuration file, if there is one alone. Raises ``ProjectsError``.
    """
    project = files.read(workspace_at(directory))
    remembered = kept.read(kept.path_in(state_dir))
    loaded = load(config, env)
    return Look(
        project=project,
        states=states(project, remembered, loaded.trust.trusted_projects),
        kept=remembered.get(project.home, Kept(dir=project.home)),
        users=frozenset(loaded.entries),
    )


def workspace_at(directory: str | None) -> str:
    """Return the workspace of a directory: itself, if it has such files, else its project."""
    path = os.path.abspath(directory or ".")
    return path if files.has_any(path) else workspace_of((), path) or path
