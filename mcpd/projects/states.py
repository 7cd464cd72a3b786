"""Which servers of a project are trusted: what its files offer, against what people have said."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal

from mcpd import paths
from mcpd.projects.files import Project
from mcpd.projects.kept import Kept

State = Literal["trusted", "untrusted", "changed", "never"]
"""``changed``: it was trusted, with another content. ``never``: nobody wants to be asked."""

WAITING: tuple[State, ...] = ("untrusted", "changed")


def states(
    project: Project, kept: Mapping[str, Kept], trusted_projects: Iterable[str]
) -> dict[str, State]:
    """Return the state of each server that a project offers."""
    known = kept.get(project.home, Kept(dir=project.home))
    if any(is_within(project.directory, pattern) for pattern in trusted_projects):
        return dict.fromkeys(project.offers, "trusted")
    found: dict[str, State] = {}
    for name, offer in project.offers.items():
        if known.has(name, offer.hash):
            found[name] = "trusted"
        elif known.is_never or name in known.never:
            found[name] = "never"
        else:
            found[name] = "untrusted" if known.answer(name) is None else "changed"
    return found


def is_within(directory: str, pattern: str) -> bool:
    """Tell whether a directory, a real path, is one that a pattern names or below it.

    ``*`` stands for any text within one part of the path, and the parts before the first one with
    a ``*`` may be links.
    """
    if pattern == "~" or pattern.startswith("~/"):
        pattern = paths.home() + pattern[1:]
    parts = [part for part in pattern.split("/") if part]
    fixed = next((at for at, part in enumerate(parts) if "*" in part), len(parts))
    start = os.path.realpath("/" + "/".join(parts[:fixed]))
    wanted = [part for part in start.split("/") if part] + parts[fixed:]
    there = [part for part in directory.split("/") if part]
    if not wanted or len(there) < len(wanted):
        return False
    return all(map(_matches, there, wanted))


def _matches(part: str, wanted: str) -> bool:
    """Compare one part of a path. In a pattern nothing but ``*`` is special."""
    return fnmatchcase(part, wanted.replace("[", "[[]").replace("?", "[?]"))
