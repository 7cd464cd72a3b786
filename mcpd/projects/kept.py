"""``projects.json`` in the state directory: what a person has trusted, and what never."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from mcpd.errors import ConfigError
from mcpd.projects.offer import Offer
from mcpd.statefile import StateFile

FILE_NAME: Final = "projects.json"

MOST_ANSWERS: Final = 20
"""Contents that are remembered for a server: worktrees may have several at a time."""


class ProjectsError(ConfigError):
    """The file of trusted projects cannot be read or written."""

    slug = "projects_unusable"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that was trusted."""

    name: str
    hash: str
    """Of the content that was shown."""

    at: float
    """Seconds since the epoch."""

    shown: tuple[str, ...] = ()
    """What was shown, to compare a change with."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered for a directory."""

    dir: str
    trusted: tuple[Answer, ...] = ()
    """The newest last."""

    never: tuple[str, ...] = ()
    """Servers that are not asked about."""

    is_never: bool = False
    """Whether none of the project is asked about."""

    def answer(self, name: str) -> Answer | None:
        """Return what was trusted last under a name."""
        return next((each for each in reversed(self.trusted) if each.name == name), None)

    def has(self, name: str, digest: str) -> bool:
        """Tell whether this content was trusted."""
        return any((each.name, each.hash) == (name, digest) for each in self.trusted)


class _File(msgspec.Struct, frozen=True):
    version: int
    projects: tuple[Kept, ...] = ()


_FILE: Final = StateFile(_File(version=1), "trusted projects", ProjectsError)


def path_in(state_dir: str) -> str:
    """Return the path of the file."""
    return os.path.join(state_dir, FILE_NAME)


def read(path: str) -> dict[str, Kept]:
    """Return what is remembered, by directory; nothing where there is no file.

    Raises:
        ProjectsError: the file cannot be read, is not private, or is not one of ours.
    """
    return {each.dir: each for each in _FILE.read(path).projects}


def answers(offers: Iterable[Offer], directory: str) -> list[Answer]:
    """Return what to remember of servers in a directory that a person trusts now."""
    now = datetime.now(UTC).timestamp()
    return [
        Answer(name=each.name, hash=each.hash, at=now, shown=tuple(each.lines(directory)))
        for each in offers
    ]


def trust(path: str, home: str, answers: Collection[Answer]) -> None:
    """Remember that these are trusted, in place of what was said of them before."""

    def change(kept: Kept) -> Kept:
        names = {each.name for each in answers}
        new = {(each.name, each.hash) for each in answers}
        older = [each for each in kept.trusted if (each.name, each.hash) not in new]
        return msgspec.structs.replace(
            kept,
            trusted=_newest([*older, *answers]),
            never=tuple(name for name in kept.never if name not in names),
            is_never=False,
        )

    _change(path, home, change)


def refuse(path: str, home: str, names: Collection[str] | None) -> None:
    """Remember that nobody wants to be asked about these, with ``None`` about any."""

    def change(kept: Kept) -> Kept:
        if names is None:
            return Kept(dir=home, is_never=True)
        left = tuple(each for each in kept.trusted if each.name not in names)
        never = tuple(sorted({*kept.never, *names}))
        return msgspec.structs.replace(kept, trusted=left, never=never)

    _change(path, home, change)


def forget(path: str, home: str, names: Collection[str] | None) -> None:
    """Forget what was said of these, with ``None`` of the whole project."""

    def change(kept: Kept) -> Kept:
        if names is None:
            return Kept(dir=home)
        left = tuple(each for each in kept.trusted if each.name not in names)
        never = tuple(name for name in kept.never if name not in names)
        return msgspec.structs.replace(kept, trusted=left, never=never)

    _change(path, home, change)


def _newest(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Return the newest few answers for each name, in their order."""
    kept: list[Answer] = []
    for each in reversed([*answers]):
        if sum(other.name == each.name for other in kept) < MOST_ANSWERS:
            kept.append(each)
    return tuple(reversed(kept))


def _change(path: str, home: str, how: Callable[[Kept], Kept]) -> None:
    """Replace what is remembered for a directory, under the file's lock.

    Raises:
        ProjectsError: the file cannot be read or written.
    """

    def change(file: _File) -> _File:
        known = {each.dir: each for each in file.projects}
        known[home] = how(known.get(home, Kept(dir=home)))
        kept = (each for each in known.values() if each != Kept(dir=each.dir))
        return msgspec.structs.replace(
            file, projects=tuple(sorted(kept, key=lambda each: each.dir))
        )

    _FILE.change(path, change)
