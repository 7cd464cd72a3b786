"""Watches configuration files, and reports each change of their content once."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Final

from mcpd.config.files import trust
from mcpd.config.files.inotify import CONTENT, NAMES, SELF, Inotify
from mcpd.errors import ConfigError

GONE_AFTER: Final = 5
"""Delays without events after which a missing file counts as removed: editors move files away and
back."""

LONGEST_WAIT: Final = 10
"""Delays after which the files are read although events still arrive."""

POLL_INTERVAL: Final = 2.0
"""Seconds between two polls where the system does not report changes."""

LINKS_MAX: Final = 40
"""Links followed for one path; the kernel's own limit."""

Plan = dict[tuple[int, int], tuple[str, int, frozenset[str]]]
"""The watches by device and inode: a path, the events and, for a directory, the names in it."""


class FileWatch:
    """Watches files, which need not exist, until ``close``.

    Nothing runs between changes. It handles atomic replacement, deletion, creation (also of the
    directory), and links anywhere in the path. Create it before reading the files, so that no
    change is missed in between. Create and close it in a running loop.
    """

    def __init__(
        self,
        files: Iterable[str],
        on_change: Callable[[], None],
        *,
        private: Iterable[str] = (),
        delay: float = 0.2,
    ) -> None:
        """Start watching; ``on_change`` is called ``delay`` seconds after the last event.

        ``private`` files also change when others become able, or unable, to read them.
        """
        self.private = frozenset(private)
        self._files = (*files, *sorted(self.private))
        self._on_change = on_change
        self._delay = delay
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._compare_by: float | None = None  # loop time; None: no event is pending
        self._gone_at: float | None = None  # loop time when a file was found missing
        self._inotify: Inotify | None = None
        self._plan: Plan = {}
        self.is_polling = not sys.platform.startswith("linux")
        """Whether files are polled: the system reports no changes, or has no watch left."""
        self._arm()
        self._states = self._read_states()

    def skip_changes(self) -> None:
        """Report only changes from now on; call it before reading the files without being told to.

        Otherwise a change back to the content of before, within the delay, would go unreported.
        """
        self._states = self._read_states()

    def close(self) -> None:
        """Stop watching. ``on_change`` is not called afterwards."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._disarm()

    def _arm(self) -> None:
        """Set watches on the current paths; try again if a path changes during that."""
        for _ in range(LONGEST_WAIT):
            plan = _plan(self._files)
            if self.is_polling:
                self._start_timer(POLL_INTERVAL)
                return
            if self._inotify is not None and not self._inotify.is_stale and plan == self._plan:
                return
            self._disarm()
            try:
                self._watch(plan)
            except OSError:  # EMFILE, ENOSPC: other programs use all watches
                self._disarm()
                self.is_polling = True

    def _watch(self, plan: Plan) -> None:
        self._plan = plan
        self._inotify = Inotify()
        self._loop.add_reader(self._inotify.fd, self._take_events)
        for path, mask, names in plan.values():
            self._inotify.add(path, mask, names)

    def _disarm(self) -> None:
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fd)
            self._inotify.close()
            self._inotify = None

    def _take_events(self) -> None:
        if self._inotify is None or not self._inotify.read():
            return
        now = self._loop.time()
        if self._compare_by is None:
            self._compare_by = now + LONGEST_WAIT * self._delay
        self._gone_at = None
        self._start_timer(min(self._delay, max(self._compare_by - now, 0)))

    def _start_timer(self, wait: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(wait, self._compare)

    def _compare(self) -> None:
        self._timer = None
        self._compare_by = None
        self._arm()
        states = self._read_states()
        if self._is_going(states):
            return
        if states != self._states:
            self._states = states
            self._on_change()

    def _is_going(self, states: list[str | None]) -> bool:
        """Return whether a file is missing so recently that an editor may still put it back."""
        if all(state is not None for state, before in self._pairs(states) if before is not None):
            self._gone_at = None
            return False
        now = self._loop.time()
        if self._gone_at is None:
            self._gone_at = now
        left = self._gone_at + GONE_AFTER * self._delay - now
        if left > 0:
            self._start_timer(left)
        return left > 0

    def _pairs(self, states: list[str | None]) -> Iterator[tuple[str | None, str | None]]:
        return zip(states, self._states, strict=True)

    def _read_states(self) -> list[str | None]:
        return [_state(file, is_private=file in self.private) for file in self._files]


def _state(file: str, *, is_private: bool) -> str | None:
    """Return the hash of a file's content, why it is refused, or ``None`` if it is missing."""
    try:
        content = trust.read(file, is_private=is_private)
    except ConfigError as error:
        return error.message
    return None if content is None else sha256(content).hexdigest()


def _plan(files: Iterable[str]) -> Plan:
    plan: Plan = {}
    for file in files:
        for path, mask, name in _ways(file, LINKS_MAX):
            try:
                status = os.stat(path)
            except OSError:  # removed just now, which is an event that leads here again
                continue
            key = (status.st_dev, status.st_ino)
            _, known_mask, known_names = plan.get(key, (path, 0, frozenset[str]()))
            names = known_names | {name} if name else known_names
            plan[key] = (path, known_mask | mask, names)
    return plan


def _ways(path: str, links_left: int) -> Iterator[tuple[str, int, str]]:
    """Yield the watches for a file: path, events, and the name in a directory.

    Each directory in the path is watched for its own removal. A directory in which the next name is
    a link or missing is watched for changes of that name. The file itself is watched too.
    """
    place = "/"
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for number, part in enumerate(parts):
        if part == "..":
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, part)
        try:
            mode = os.lstat(here).st_mode
        except OSError:
            yield place, NAMES, part
            return
        if stat.S_ISLNK(mode):
            yield place, NAMES, part
            if links_left > 0:
                target = os.path.join(place, _target(here), *parts[number + 1 :])
                yield from _ways(target, links_left - 1)
            return
        if number < len(parts) - 1:
            yield place, SELF, ""
        else:
            yield place, NAMES, part
            yield here, CONTENT, ""
        place = here


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # replaced just now, which is an event of its own
        return ""
