"""Whose a process is: the trees of our children, however their members tried to leave them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mcpd.supervise import procfs
from mcpd.supervise.process import Child
from mcpd.supervise.procfs import ProcId, Stat

POLL_S = 0.05
"""Between two looks at a process for which no pidfd is to be had."""


class Spared(NamedTuple):
    """What a stopped server with ``stop_scope = "group"`` left behind, to be left alone."""

    processes: frozenset[ProcId] = frozenset()
    tags: frozenset[str] = frozenset()
    """Tags less their generation."""


class Forest(NamedTuple):
    """All trees at one moment."""

    members: dict[Child, list[Stat]]
    """What runs of each child's tree, the leader first where it runs."""

    unmarked: dict[Child, set[ProcId]]
    """Those members that neither session nor tag betrays."""

    strays: list[Stat]
    """Processes that came to us as orphans and belong to no tree that is alive."""


def sort_out(
    table: Sequence[Stat], children: Sequence[Child], *, daemon_id: str, spared: Spared
) -> Forest:
    """Find each child's tree in the process table, which has the tags of all younger than them.

    In this order: the child and its session; what was seen in its tree before; the descendants
    of these; who carries its tag; orphans that came to us (we are a subreaper) and hold the
    child's pipes, or can be nobody else's. Another daemon that was started from inside a
    server, its guardian and its servers belong to nobody here.
    """
    return _Sorting(table, children, daemon_id, spared).run()


class _Sorting:
    def __init__(
        self, table: Sequence[Stat], children: Sequence[Child], daemon_id: str, spared: Spared
    ) -> None:
        self._me = os.getpid()
        self._by_pid = {each.pid: each for each in table if each.lives and each.pid != self._me}
        self._by_parent: dict[int, list[Stat]] = {}
        for each in self._by_pid.values():
            self._by_parent.setdefault(each.ppid, []).append(each)
        self._children = children
        self._leaders = {child.id: child for child in children}
        self._daemon_id = daemon_id
        self._spared = spared
        self._owner: dict[int, Child] = {}

    def run(self) -> Forest:
        for child in self._children:
            for each in self._session(child):
                self._claim(child, each)
            for process in child.known:
                seen = self._by_pid.get(process.pid)
                if seen is not None and seen.id == process and not self._is_foreign(seen):
                    self._claim(child, seen)
        for pid in list(self._owner):
            self._claim_descendants(pid)
        self._claim_tagged()
        strays = self._sort_orphans()
        members: dict[Child, list[Stat]] = {child: [] for child in self._children}
        unmarked: dict[Child, set[ProcId]] = {child: set() for child in self._children}
        for pid, child in self._owner.items():
            each = self._by_pid[pid]
            members[child].append(each)
            if each.sid != child.pid and each.tag != child.tag:
                unmarked[child].add(each.id)
        for child, found in members.items():
            found.sort(key=lambda each: (each.pid != child.pid, each.started, each.pid))
        return Forest(members, unmarked, strays)

    def _session(self, child: Child) -> list[Stat]:
        """Return the living processes of a child's session.

        The number of a session is taken as long as anybody is in it. Once the child has been
        reaped it is proof only if somebody in it was there before: else it may have been given
        to a process of somebody else's in the meantime.
        """
        found = [each for each in self._by_pid.values() if each.sid == child.pid]
        if child.died is None:
            return found
        died = child.died
        proven = any(each.started <= died or each.id in child.known for each in found)
        recycled = child.pid in self._by_pid
        return found if proven and not recycled else []

    def _claim(self, child: Child, each: Stat) -> None:
        if each.pid not in self._owner and self._leaders.get(each.id, child) is child:
            self._owner[each.pid] = child

    def _claim_descendants(self, pid: int) -> None:
        child, waiting = self._owner[pid], [pid]
        while waiting:
            for each in self._by_parent.get(waiting.pop(), ()):
                if each.pid not in self._owner and not self._is_foreign(each):
                    self._claim(child, each)
                    waiting.append(each.pid)

    def _claim_tagged(self) -> None:
        by_tag = {child.tag: child for child in self._children if child.tag}
        for each in list(self._by_pid.values()):
            child = by_tag.get(each.tag or "")
            if child is not None and each.pid not in self._owner:
                self._claim(child, each)
                self._claim_descendants(each.pid)

    def _sort_orphans(self) -> list[Stat]:
        """Give orphans that came to us to the tree they are of; return those of no living tree.

        What this process starts itself stays in our session and is not meant; nor is an orphan
        that may be of several trees: it waits until all of them but one have ended.
        """
        strays = []
        our_session = os.getsid(0)
        for each in self._by_parent.get(self._me, ()):
            if each.pid in self._owner or each.id in self._leaders or each.sid == our_session:
                continue
            if each.id in self._spared.processes or self._is_foreign(each):
                continue
            if each.tag is not None and each.tag.rpartition(":")[0] in self._spared.tags:
                continue
            candidates = [] if each.tag is not None else self._candidates(each)
            if not candidates:
                strays.append(each)
            elif len(candidates) == 1:
                self._claim(candidates[0], each)
                self._claim_descendants(each.pid)
        return strays

    def _candidates(self, orphan: Stat) -> list[Child]:
        older = [child for child in self._children if child.started <= orphan.started]
        held = procfs.pipes(orphan.pid)
        return [child for child in older if held & child.pipe_inodes] or older

    def _is_foreign(self, each: Stat) -> bool:
        """Return whether a process is of another daemon: its server, its guardian, or itself.

        A daemon that detached itself leads its session; one in the foreground of a server's
        shell is that server's as everything else there.
        """
        if each.tag is not None and not each.tag.startswith(f"{self._daemon_id}:"):
            return True
        return each.sid == each.pid and is_daemon(procfs.arguments(each.pid))


def is_daemon(arguments: Sequence[str]) -> bool:
    """Return whether a command line is that of a daemon or of a guardian."""
    first = arguments[:5]
    script = next((each for each in first[1:] if not each.startswith("-")), "")
    return (
        "mcpd" in (os.path.basename(first[0] if first else ""), os.path.basename(script))
        or ("-m", "mcpd") in itertools.pairwise(first)
        or script.endswith("/supervise/guardian.py")
    )


async def members(child: Child) -> list[Stat]:
    """Return what runs of a child's tree, as far as its ``stop_scope`` reaches."""
    assert child.watcher is not None, "a child is registered with the reaper when it is spawned"
    found = (await child.watcher.look()).get(child, ())
    if child.scope == "group":
        return [each for each in found if each.sid == child.pid]
    return list(found)


async def pids(child: Child) -> list[int]:
    """Return the numbers of the processes of a child's tree, its own first."""
    return [each.pid for each in await members(child)]


def signal_all(processes: Iterable[ProcId], signum: int) -> list[ProcId]:
    """Send a signal to each of these very processes; return those that were there."""
    return [each for each in processes if procfs.send(each, signum)]


async def wait_gone(processes: Iterable[ProcId], timeout: float) -> bool:
    """Wait until none of these processes runs, ``timeout`` seconds at most; return whether so.

    Woken by their ends through pidfds. Cancelling is safe.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    for process in processes:
        while procfs.lives(process):
            left = deadline - loop.time()
            if left <= 0:
                return False
            await _wait_end(process, left)
    return True


async def _wait_end(process: ProcId, timeout: float) -> None:
    """Wait for what may be the end of ``process``, ``timeout`` seconds at most."""
    if sys.platform != "linux":
        return await asyncio.sleep(min(POLL_S, timeout))
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    except OSError:  # no descriptor left, or a kernel without pidfds
        return await asyncio.sleep(min(POLL_S, timeout))
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def wake() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(fd, wake)
    try:
        if procfs.lives(process):  # else the pidfd may be of a process that has the pid now
            await asyncio.wait((ended,), timeout=timeout)
    finally:
        with contextlib.suppress(ValueError):
            loop.remove_reader(fd)
        os.close(fd)
