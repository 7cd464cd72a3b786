"""Whose a process is: the trees of what we started, however their members tried to leave them.

Standard library only: the guardian sorts by the same rules as the daemon.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId, Stat

GUARDIANS = ("/supervise/cleanup/guardian.py", "/supervise/guardian.py")
"""How the path of the guardian's script ends; the second is that of older versions."""


class Root(Protocol):
    """A process that we started, and where what is below it is recognised by."""

    @property
    def id(self) -> ProcId:
        """Return what tells it from every other process."""

    @property
    def tag(self) -> str:
        """Return the tag it was started with."""

    @property
    def died(self) -> int | None:
        """Return the ticks when its status was taken, and its pid free; ``None`` before that."""

    @property
    def known(self) -> set[ProcId]:
        """Return what was seen in its tree before."""

    @property
    def pipe_inodes(self) -> frozenset[int]:
        """Return the pipes it was started with."""


R = TypeVar("R", bound=Root)


class Spared(NamedTuple):
    """What a stopped server with ``stop_scope = "group"`` left behind, to be left alone."""

    processes: frozenset[ProcId] = frozenset()
    tags: frozenset[str] = frozenset()
    """Tags less their generation: see ``stem``."""

    def has(self, process: Stat) -> bool:
        """Return whether this is one of those."""
        return process.id in self.processes or stem(process.tag or "") in self.tags


def stem(tag: str) -> str:
    """Return what the tags of all generations of a server have in common."""
    return tag.rpartition(":")[0]


class Forest(Generic[R]):
    """All trees at one moment."""

    def __init__(self, roots: Sequence[R]) -> None:
        self.members: dict[R, list[Stat]] = {root: [] for root in roots}
        """What runs of each tree, its root first where that runs."""
        self.away: dict[R, set[ProcId]] = {root: set() for root in roots}
        """Those members that have left the root's session; a tag can still be lost, by an exec."""
        self.strays: list[Stat] = []
        """Processes that came to us as orphans and belong to no tree that is alive."""


def sort_out(
    table: Iterable[Stat],
    roots: Sequence[R],
    *,
    daemon_id: str,
    spared: Spared,
    are_ours: bool,
) -> Forest[R]:
    """Find each tree in the process table, which has the tags of all that is younger than them.

    In this order: the root and its session; what was seen in its tree before; the descendants
    of these; who carries its tag; and where the roots ``are_ours``, so that as a subreaper we
    get their orphans: those that hold the root's pipes, or can be nobody else's. Another daemon
    that was started from inside a server, its guardian and its servers belong to nobody here.
    """
    sorting = _Sorting(table, roots, daemon_id, spared)
    forest = Forest(roots)
    sorting.claim_marked()
    if are_ours:
        forest.strays = sorting.claim_orphans()
    sorting.fill(forest)
    return forest


class _Sorting(Generic[R]):
    def __init__(
        self, table: Iterable[Stat], roots: Sequence[R], daemon_id: str, spared: Spared
    ) -> None:
        self._me, self._our_session = os.getpid(), os.getsid(0)
        self._by_pid = {each.pid: each for each in table if each.lives and each.pid != self._me}
        self._by_parent: dict[int, list[Stat]] = {}
        for each in self._by_pid.values():
            self._by_parent.setdefault(each.ppid, []).append(each)
        self._roots = roots
        self._root_ids = {root.id: root for root in roots}
        self._daemon_id = daemon_id
        self._spared = spared
        self._owner: dict[int, R] = {}

    def claim_marked(self) -> None:
        """Give each tree what session, memory, descent or tag say is of it."""
        for root in self._roots:
            for each in self._session(root):
                self._claim(root, each)
            for process in root.known:
                seen = self._by_pid.get(process.pid)
                if seen is not None and seen.id == process and not self._is_foreign(seen):
                    self._claim(root, seen)
        for pid in list(self._owner):
            self._claim_descendants(pid)
        by_tag = {root.tag: root for root in self._roots if root.tag}
        for each in self._by_pid.values():
            tagged = by_tag.get(each.tag or "")
            if tagged is not None and each.pid not in self._owner:
                self._claim(tagged, each)
                self._claim_descendants(each.pid)

    def fill(self, forest: Forest[R]) -> None:
        """Put each tree's members down, its root first."""
        for pid, root in self._owner.items():
            each = self._by_pid[pid]
            forest.members[root].append(each)
            if each.sid != root.id.pid:
                forest.away[root].add(each.id)
        for root, found in forest.members.items():
            found.sort(key=lambda each: (each.started, each.pid))
            leading = [each for each in found if each.id == root.id]
            found[:] = leading + [each for each in found if each.id != root.id]

    def _session(self, root: R) -> list[Stat]:
        """Return the living processes of a root's session.

        The number of a session is taken as long as anybody is in it. Once the root's pid is free
        it is proof only with somebody in it who is known by other means: else it may have been
        given to a process of somebody else's in the meantime.
        """
        found = [each for each in self._by_pid.values() if each.sid == root.id.pid]
        if root.died is None:
            return found
        died, known, tag = root.died, root.known, root.tag
        proven = any(each.started <= died or each.id in known or each.tag == tag for each in found)
        recycled = root.id.pid in self._by_pid
        return found if proven and not recycled else []

    def _claim(self, root: R, each: Stat) -> None:
        if each.pid not in self._owner and self._root_ids.get(each.id, root) is root:
            self._owner[each.pid] = root

    def _claim_descendants(self, pid: int) -> None:
        root, waiting = self._owner[pid], [pid]
        while waiting:
            for each in self._by_parent.get(waiting.pop(), ()):
                if each.pid not in self._owner and not self._is_foreign(each):
                    self._claim(root, each)
                    waiting.append(each.pid)

    def claim_orphans(self) -> list[Stat]:
        """Give orphans that came to us to the tree they are of; return those of no living tree.

        What this process starts itself stays in our session and is not meant; nor is an orphan
        that may be of several trees: it waits until all of them but one have ended.
        """
        strays = []
        for each in self._by_parent.get(self._me, ()):
            if each.pid in self._owner or each.id in self._root_ids:
                continue
            if each.sid == self._our_session or self._is_foreign(each) or self._spared.has(each):
                continue
            candidates = [] if each.tag is not None else self._candidates(each)
            if not candidates:
                strays.append(each)
            elif len(candidates) == 1:
                self._claim(candidates[0], each)
                self._claim_descendants(each.pid)
        return strays

    def _candidates(self, orphan: Stat) -> list[R]:
        older = [root for root in self._roots if root.id.started <= orphan.started]
        held = procfs.pipes(orphan.pid)
        return [root for root in older if held & root.pipe_inodes] or older

    def _is_foreign(self, each: Stat) -> bool:
        """Return whether a process is of another daemon: its server, its guardian, or itself.

        A server's process carries its daemon's tag. A daemon and a guardian hold their lock; the
        name alone proves nothing, since a process chooses it. A daemon that detached itself leads
        its session; one in the foreground of a server's shell is that server's as everything else
        there.
        """
        if each.tag is not None and not each.tag.startswith(f"{self._daemon_id}:"):
            return True
        return (
            each.sid == each.pid
            and calls_itself_daemon(procfs.arguments(each.pid))
            and procfs.holds_own_lock(each.pid)
        )


def calls_itself_daemon(arguments: Sequence[str]) -> bool:
    """Return whether a command line is that of a daemon or of a guardian.

    Any process can have such a command line: this only spares a look at the files of the others.
    """
    first = arguments[:5]
    script = next((each for each in first[1:] if not each.startswith("-")), "")
    return (
        "mcpd" in (os.path.basename(first[0] if first else ""), os.path.basename(script))
        or ("-m", "mcpd") in itertools.pairwise(first)
        or script.endswith(GUARDIANS)
    )
