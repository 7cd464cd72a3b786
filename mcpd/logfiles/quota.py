"""One bound for all logs together: what goes first when they take too much of the disk."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from mcpd import privatefiles, tasks

PARTS: Final = 32
"""After every 32nd of the bound that is written there is a look, which makes room for two more:
one that is written before the next look, one while that is under way."""

BLOCK_BYTES: Final = 4096
"""A file takes as much at least, however short."""

OWN: Final = "mcpd.log"
"""The daemon's own, in the state directory itself."""

_LOG = re.compile(r"([A-Za-z0-9_%-]+\.log)(?:\.(\d+))?")


class Removed(NamedTuple):
    """What was given up."""

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
    """Keeps the logs of a state directory below their bound, those of other daemons included.

    Invariant: looks are in a thread, one at a time.
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
        self._look: asyncio.Task[None] | None = None

    def grew(self, count: int) -> None:
        """Count bytes that were written."""
        self._grown += count
        if self._grown >= self.max_bytes // PARTS:
            self.look_soon()

    def look_soon(self) -> None:
        """Look now, unless somebody is looking: there is another one when enough was written."""
        if self.max_bytes and (self._look is None or self._look.done()):
            self._grown = 0
            self._look = tasks.spawn(self._make_room(), name="logs.room")

    async def close(self) -> None:
        """Wait for the look that is under way."""
        if self._look is not None:
            await asyncio.wait((self._look,))

    async def _make_room(self) -> None:
        most = self.max_bytes - 2 * (self.max_bytes // PARTS)
        known = frozenset(self._known())
        removed = await asyncio.to_thread(make_room, self._state_dir, most, known)
        if removed.files:
            self._on_removed(removed)


def make_room(state_dir: str, most: int, known: frozenset[str]) -> Removed:
    """Remove old parts of logs until all of them take ``most`` bytes together.

    First the logs that are not ``known`` any more, the oldest first; then the oldest part of
    whichever log takes most, so that one that is flooded costs the others nothing; and where many
    small ones take too much, the largest of those that are written, which are then empty. Never
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
    """Open a directory of logs; the state's own was chosen by a person, whatever it is in."""
    is_logs = os.path.basename(path) == "logs"
    return privatefiles.open_directory(path) if is_logs else privatefiles.open_checked(path)


def _parts(path: str) -> Iterator[_Part]:
    """Return the logs in a directory, links not followed."""
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
