"""Ends the processes and containers of a dead daemon.

Standard library only and blocking: used by the guardian, and in a thread of the next daemon.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from mcpd.supervise.cleanup.ledgerfile import DaemonRecord, ProcessRecord
from mcpd.supervise.proctable import ownership, procfs
from mcpd.supervise.proctable.procfs import ProcId, Stat

GRACE_S = 1.0
"""Seconds from SIGTERM to SIGKILL."""

LIMIT_S = 8.0
"""Seconds for SIGKILL; after that only processes stuck in the kernel or of others are left."""

PAUSE_S = 0.05

EMPTY_SCANS = 4
"""Scans in a row that must find no process: one that was being started when the daemon died has its
tag only a few milliseconds later."""


class _Root:
    """A recorded process as an ``ownership.Root``."""

    pipe_inodes: frozenset[int] = frozenset()  # the daemon's ends were closed when it died

    def __init__(self, entry: ProcessRecord) -> None:
        self.id = ProcId(entry.pid, entry.started)
        self.tag = entry.tag
        self.scope = entry.scope
        self.known = set(entry.seen)

    @property
    def died(self) -> int | None:
        """Return 0 for a process that has ended: it is unknown when its pid became free."""
        return None if procfs.identify(self.id.pid) == self.id else 0


class _Orphans:
    """The processes that are left of one daemon's trees; each scan adds to what is known."""

    def __init__(self, recorded: DaemonRecord) -> None:
        self._roots = [_Root(each) for each in recorded.entries]
        self._prefix = f"{recorded.daemon_id}:"
        self._daemon_id = recorded.daemon_id
        self._since = recorded.daemon.started
        narrow = [ownership.stem(each.tag) for each in recorded.entries if each.scope == "group"]
        self._spared = ownership.Spared(tags=frozenset(narrow).union(recorded.spared))

    def scan(self) -> set[ProcId]:
        """Return the living processes of the recorded trees and those with a tag of the daemon."""
        table = _table(self._since)
        forest = ownership.assign(
            table,
            self._roots,
            daemon_id=self._daemon_id,
            spared=self._spared,
            are_ours=False,
        )
        found: set[ProcId] = set()
        for root, members in forest.members.items():
            root.known |= {each.id for each in members}
            found.update(each.id for each in members if self._reaches(root, each))
        found.update(each.id for each in table if self._is_tagged(each))
        return found

    def _reaches(self, root: _Root, member: Stat) -> bool:
        return root.scope == "tree" or member.sid == root.id.pid

    def _is_tagged(self, each: Stat) -> bool:
        tagged = each.tag is not None and each.tag.startswith(self._prefix)
        return tagged and each.lives and not self._spared.has(each)


def _table(since: int) -> list[Stat]:
    """Return the process table; wait for a free descriptor if there is none."""
    while True:
        try:
            return procfs.scan(tags_since=since)
        except OSError:
            time.sleep(PAUSE_S)


def end_containers(recorded: DaemonRecord, *, tag: str | None = None) -> tuple[int, list[str]]:
    """End the containers of a dead daemon's servers at the same time, after their processes.

    Returns the number of those that have ended, and a sentence for each that may still run.
    ``tag`` marks the engine's processes, so that they are found if we die.
    """
    containers = [each.container for each in recorded.entries if each.container is not None]
    if not containers:
        return 0, []
    from mcpd.supervise import engine  # only if needed, to keep the guardian small

    left = engine.end_all(containers, grace=GRACE_S, tag=tag)
    return len(containers) - len(left), left


def end(
    recorded: DaemonRecord, *, grace: float = GRACE_S, sleep: Callable[[float], None] = time.sleep
) -> int:
    """End the processes of a dead daemon's trees; return how many there were.

    Sends SIGTERM and, ``grace`` seconds later, SIGKILL until no process is found or ``LIMIT_S`` has
    passed. A signal is sent only to a process whose pid and start time are those found by the scan.
    """
    orphans = _Orphans(recorded)
    now = time.monotonic
    ended: set[ProcId] = set()
    until = now() + grace
    found = orphans.scan()
    while found and now() < until:
        for process in found - ended:
            procfs.send(process, signal.SIGTERM)
        ended |= found
        sleep(PAUSE_S)
        found = orphans.scan()
    until, empty = now() + LIMIT_S, 0
    while empty < EMPTY_SCANS and now() < until:
        empty = 0 if found else empty + 1
        for process in found:
            procfs.send(process, signal.SIGKILL)
        ended |= found
        sleep(PAUSE_S)
        found = orphans.scan()
    return len(ended)
