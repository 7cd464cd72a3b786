"""A bound for all logs of a state directory together, and what is removed first."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from mcpd import privatefiles, tasks

PARTS: Final = 32
"""Sizes are checked each time a 32nd of the bound was written. A check makes room for two 32nds:
one that is written until the next check, and one while that is running."""

BLOCK_BYTES: Final = 4096
"""The least that a file counts: what it takes of the disk."""

OWN: Final = "mcpd.log"
"""The daemon's own, in the state directory itself."""

_LOG = re.compile(r"([A-Za-z0-9_%-]+\.log)(?:\.(\d+))?")


class Removed(NamedTuple):
    """What was removed."""

    files: int
    bytes: int


class _Part(NamedTuple):
    """One file of a log; ``number`` is 0 for the one that is written."""

    directory: str
    log: str
    number: int
    size: int
    changed: float

    @property
    def name(self) -> str:
        return f"{self.log}.{self.number}" if self.number else self.log


class LogQuota:
    """Keeps the logs of a state directory below their bound, also those that another daemon writes.

    Invariant: checks run in a thread, one at a time.
    """

    def __init__(
        self,
        state_dir: str,
        *,
        known: Callable[[], Iterable[str]],
        on_removed: Callable[[Removed], object],
    ) -> None:
        """``known`` returns the file names of logs that are written to."""
        self.max_bytes = 0
        """0: no bound."""
        self._state_dir = state_dir
        self._known = known
        self._on_removed = on_removed
        self._grown = 0
        self._check: asyncio.Task[None] | None = None

    def grew(self, count: int) -> None:
        """Count bytes that were written."""
        self._grown += count
        if self._grown >= self.max_bytes // PARTS:
            self.check_soon()

    def check_soon(self) -> None:
        """Check the sizes now, unless a check is running."""
        if self.max_bytes and (self._check is None or self._check.done()):
            self._grown = 0
            self._check = tasks.spawn(self._make_room(), name="logs.room")

    async def close(self) -> None:
        """Wait for the check that is running."""
        if self._check is not None:
            await asyncio.wait((self._check,))

    async def _make_room(self) -> None:
        most = self.max_bytes - 2 * (self.max_bytes // PARTS)
        known = frozenset(self._known())
        removed = await asyncio.to_thread(make_room, self._state_dir, most, known)
        if removed.files:
            self._on_removed(removed)


def make_room(state_dir: str, most: int, known: frozenset[str]) -> Removed:
    """Remove old parts of logs until all of them take ``most`` bytes together.

    First the logs that are not ``known``, the oldest first. Then the oldest part of the largest
    log, again and again, so that a flooded log costs the others nothing. Last, where many small
    logs take too much, the largest files that are written; their writers begin new ones. Never
    raises for what is on the disk.
    """
    parts = [*_parts(os.path.join(state_dir, "logs"))]
    parts += [each for each in _parts(state_dir) if each.log == OWN]
    known |= {OWN}
    total = sum(each.size for each in parts)
    gone = freed = 0
    for each in _in_order(parts, known):
        if total - freed <= most:
            break
        if _remove(each):
            gone += 1
            freed += each.size
    return Removed(gone, freed)


def _in_order(parts: list[_Part], known: frozenset[str]) -> Iterator[_Part]:
    yield from sorted((p for p in parts if p.log not in known), key=lambda p: p.changed)
    logs: dict[str, list[_Part]] = {}
    for each in sorted((p for p in parts if p.log in known), key=lambda p: p.number):
        logs.setdefault(each.log, []).append(each)
    sizes = {log: sum(each.size for each in found) for log, found in logs.items()}
    while any(found[-1].number for found in logs.values()):
        largest = max((log for log in logs if logs[log][-1].number), key=sizes.__getitem__)
        oldest = logs[largest].pop()
        sizes[largest] -= oldest.size
        if not logs[largest]:
            del logs[largest]
        yield oldest
    yield from sorted((found[0] for found in logs.values()), key=lambda p: -p.size)


def _open(path: str) -> int:
    """Open a directory of logs. A person chose where the state is: its parent is not checked."""
    is_logs = os.path.basename(path) == "logs"
    return privatefiles.open_directory(path) if is_logs else privatefiles.open_checked(path)


def _parts(path: str) -> Iterator[_Part]:
    """Yield the logs in a directory; links are not followed."""
    try:
        directory = _open(path)
    except OSError:
        return
    try:
        with os.scandir(directory) as found:
            for entry in found:
                named = _LOG.fullmatch(entry.name)
                if named is None or not entry.is_file(follow_symlinks=False):
                    continue
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                number = int(named[2] or 0)
                size = max(stat.st_size, BLOCK_BYTES)
                yield _Part(path, named[1], number, size, stat.st_mtime)
    except OSError:
        return
    finally:
        os.close(directory)


def _remove(part: _Part) -> bool:
    try:
        directory = _open(part.directory)
    except OSError:
        return False
    try:
        os.unlink(part.name, dir_fd=directory)
    except OSError:
        return False
    finally:
        os.close(directory)
    return True
