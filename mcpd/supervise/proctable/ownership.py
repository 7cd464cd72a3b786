"""Assigns the processes of the machine to the trees of the children that we started.

Members are found even if they have left the session, the parent or the process group. Standard
library only: the guardian uses the same rules as the daemon.
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
    """A process that we started, with what identifies the members of its tree."""

    @property
    def id(self) -> ProcId:
        """Return its identity, which no other process ever has."""

    @property
    def tag(self) -> str:
        """Return the tag it was started with."""

    @property
    def died(self) -> int | None:
        """Return the ticks at which it was reaped and its pid became free; ``None`` before."""

    @property
    def known(self) -> set[ProcId]:
        """Return the processes that earlier scans found in its tree."""

    @property
    def pipe_inodes(self) -> frozenset[int]:
        """Return the pipes it was started with."""


R = TypeVar("R", bound=Root)


class Spared(NamedTuple):
    """Processes that stopped servers with ``stop_scope = "group"`` left running on purpose."""

    processes: frozenset[ProcId] = frozenset()
    tags: frozenset[str] = frozenset()
    """Tags without their generation: see ``stem``."""

    def has(self, process: Stat) -> bool:
        """Return whether ``process`` is one of them."""
        return process.id in self.processes or stem(process.tag or "") in self.tags


def stem(tag: str) -> str:
    """Return a tag without its generation, the part that all processes of a server share."""
    return tag.rpartition(":")[0]


class Forest(Generic[R]):
    """All trees at one moment."""

    def __init__(self, roots: Sequence[R]) -> None:
        self.members: dict[R, list[Stat]] = {root: [] for root in roots}
        """The living processes of each tree, its root first if that is alive."""
        self.escaped: dict[R, set[ProcId]] = {root: set() for root in roots}
        """The members that have left the root's session. An exec may still remove their tag."""
        self.unowned: list[Stat] = []
        """Orphans that we adopted and that belong to no living tree."""


def assign(
    table: Iterable[Stat],
    roots: Sequence[R],
    *,
    daemon_id: str,
    spared: Spared,
    are_ours: bool,
) -> Forest[R]:
    """Assign the processes of ``table`` to the trees of ``roots``.

    ``table`` has the tags of all processes that are younger than the oldest root. A tree consists,
    in this order of precedence, of the root and its session; of processes found in it before; of
    the descendants of these; of processes with its tag; and, if the roots ``are_ours`` (as a
    subreaper we adopt their orphans), of orphans that hold the root's pipes or can belong to no
    other tree. Another daemon that was started from inside a server, its guardian and its servers
    are assigned to no tree.
    """
    assignment = _Assignment(table, roots, daemon_id, spared)
    forest = Forest(roots)
    assignment.claim_marked()
    if are_ours:
        forest.unowned = assignment.claim_orphans()
    assignment.fill(forest)
    return forest


class _Assignment(Generic[R]):
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
        """Assign the processes that a session, an earlier scan, descent or a tag identifies."""
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
        """Write the members of each tree to ``forest``, the root first."""
        for pid, root in self._owner.items():
            each = self._by_pid[pid]
            forest.members[root].append(each)
            if each.sid != root.id.pid:
                forest.escaped[root].add(each.id)
        for root, found in forest.members.items():
            found.sort(key=lambda each: (each.started, each.pid))
            leading = [each for each in found if each.id == root.id]
            found[:] = leading + [each for each in found if each.id != root.id]

    def _session(self, root: R) -> list[Stat]:
        """Return the living processes of a root's session.

        The kernel does not reuse the number of a session while a process is in it. Once the root's
        pid is free, the number alone proves nothing: it counts only if a process in the session is
        identified by other means, or is older than the root's end.
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
        """Assign adopted orphans to their trees; return those that belong to no living tree.

        Processes that this program starts itself stay in our session and are skipped. An orphan
        that could belong to several trees stays unassigned until only one of them is left.
        """
        unowned = []
        for each in self._by_parent.get(self._me, ()):
            if each.pid in self._owner or each.id in self._root_ids:
                continue
            if each.sid == self._our_session or self._is_foreign(each) or self._spared.has(each):
                continue
            candidates = [] if each.tag is not None else self._candidates(each)
            if not candidates:
                unowned.append(each)
            elif len(candidates) == 1:
                self._claim(candidates[0], each)
                self._claim_descendants(each.pid)
        return unowned

    def _candidates(self, orphan: Stat) -> list[R]:
        older = [root for root in self._roots if root.id.started <= orphan.started]
        held = procfs.pipes(orphan.pid)
        return [root for root in older if held & root.pipe_inodes] or older

    def _is_foreign(self, each: Stat) -> bool:
        """Return whether a process is another daemon, its guardian, or one of its servers.

        A server's process carries its daemon's tag. A daemon and a guardian hold their lock; their
        name alone proves nothing, since a process chooses it. A daemon that detached itself leads
        its session; one in the foreground of a server's shell belongs to that server.
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

    Any process can have such a command line: this is a cheap test before the open files are read.
    """
    first = arguments[:5]
    script = next((each for each in first[1:] if not each.startswith("-")), "")
    return (
        "mcpd" in (os.path.basename(first[0] if first else ""), os.path.basename(script))
        or ("-m", "mcpd") in itertools.pairwise(first)
        or script.endswith(GUARDIANS)
    )
