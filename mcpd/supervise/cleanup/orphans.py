"""The end of everything that a dead daemon left behind.

Standard library only, and blocking: for the guardian, and for a thread of the next daemon.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from mcpd.supervise.cleanup.ledgerfile import Entry, Recorded
from mcpd.supervise.proctable import ownership, procfs
from mcpd.supervise.proctable.procfs import ProcId, Stat

GRACE_S = 1.0
"""From SIGTERM to SIGKILL."""

LIMIT_S = 8.0
"""Longer than that only processes stuck in the kernel, or not ours to signal, live on."""

PAUSE_S = 0.05

QUIET_LOOKS = 4
"""So many looks in a row must find nothing: a process that was being started when the daemon died
carries its tag a few milliseconds later only."""


class _Root:
    """A recorded process, in the shape that the sorting wants."""

    pipe_inodes: frozenset[int] = frozenset()  # the daemon's ends went with it

    def __init__(self, entry: Entry) -> None:
        self.id = ProcId(entry.pid, entry.started)
        self.tag = entry.tag
        self.scope = entry.scope
        self.known = set(entry.seen)

    @property
    def died(self) -> int | None:
        """Return 0 for one that has gone: nothing is known of when its pid became free."""
        return None if procfs.identify(self.id.pid) == self.id else 0


class _Orphans:
    """What is left of one daemon's trees, look by look."""

    def __init__(self, recorded: Recorded) -> None:
        self._roots = [_Root(each) for each in recorded.entries]
        self._prefix = f"{recorded.daemon_id}:"
        self._daemon_id = recorded.daemon_id
        self._since = recorded.daemon.started
        narrow = [ownership.stem(each.tag) for each in recorded.entries if each.scope == "group"]
        self._spared = ownership.Spared(tags=frozenset(narrow).union(recorded.spared))

    def look(self) -> set[ProcId]:
        """Return what runs now of the recorded trees, and all that carries a tag of the daemon."""
        table = _table(self._since)
        forest = ownership.sort_out(
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
    """Return the process table, as soon as there is a descriptor to read it with."""
    while True:
        try:
            return procfs.scan(tags_since=since)
        except OSError:
            time.sleep(PAUSE_S)


def end_containers(recorded: Recorded, *, tag: str | None = None) -> tuple[int, list[str]]:
    """End the containers of a dead daemon's servers, all at once, when the processes have gone.

    Returns for how many it was seen to that nothing runs, and what is left, a sentence each.
    ``tag`` marks the commands for whoever clears up after us.
    """
    containers = [each.container for each in recorded.entries if each.container is not None]
    if not containers:
        return 0, []
    from mcpd.supervise import engine  # only here: a guardian is to stay small

    left = engine.end_all(containers, grace=GRACE_S, tag=tag)
    return len(containers) - len(left), left


def end(
    recorded: Recorded, *, grace: float = GRACE_S, sleep: Callable[[float], None] = time.sleep
) -> int:
    """End all that is left of a dead daemon's trees; return how many processes that were.

    SIGTERM, ``grace`` seconds, SIGKILL, until nothing is found any more or ``LIMIT_S`` is over.
    Each signal goes to a process whose pid and start are those that were looked at.
    """
    orphans = _Orphans(recorded)
    now = time.monotonic
    ended: set[ProcId] = set()
    until = now() + grace
    found = orphans.look()
    while found and now() < until:
        for process in found - ended:
            procfs.send(process, signal.SIGTERM)
        ended |= found
        sleep(PAUSE_S)
        found = orphans.look()
    until, quiet = now() + LIMIT_S, 0
    while quiet < QUIET_LOOKS and now() < until:
        quiet = 0 if found else quiet + 1
        for process in found:
            procfs.send(process, signal.SIGKILL)
        ended |= found
        sleep(PAUSE_S)
        found = orphans.look()
    return len(ended)
