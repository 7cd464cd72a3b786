"""The one place where exit statuses are taken: our children's, and those of orphans we inherit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcpd import tasks
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import ownership, procfs
from mcpd.supervise.proctable.procfs import ProcId, Stat

PR_SET_CHILD_SUBREAPER = 36
"""Source: prctl(2)."""

LOOK_INTERVAL_S = 0.25
"""At most so often do ends of orphans make us look through the process table."""


class Reaper:
    """Takes exit statuses, and knows which processes belong to which child.

    Invariant: a status is taken by the pid of a process that is registered here, or that came to
    us as an orphan of one; what others in this process start stays in our session and is theirs.
    """

    def __init__(
        self,
        daemon_id: str,
        *,
        on_stray: Callable[[ProcId], None] | None = None,
        on_away: Callable[[], None] | None = None,
    ) -> None:
        """Prepare.

        ``on_stray`` hears once of each orphan that belongs to no living tree, and is to be ended.
        ``on_away`` is called when the trees have other members than before that have left their
        session. Who saw where they came from can find them for sure: the ledger is to be saved.
        """
        self._daemon_id = daemon_id
        self._on_stray = on_stray
        self._on_away = on_away
        self._alive: dict[int, Child] = {}
        self._trees: dict[Child, None] = {}
        """Children whose trees have not ended, in order of their start."""
        self._spared = ownership.Spared()
        self._reported: set[ProcId] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._old_handler: Any = signal.SIG_DFL
        self._scan: asyncio.Task[Mapping[Child, Sequence[Stat]]] | None = None
        self._next_scan: asyncio.Task[Mapping[Child, Sequence[Stat]]] | None = None
        self._looked_at = 0.0
        self._look_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Become the subreaper of all descendants, and hear of ends on the running loop.

        In the main thread. Not by ``add_signal_handler``, which uvloop refuses for SIGCHLD. For
        the same reason nothing in this process may use the loop's own ``subprocess_exec``: libuv
        would put its handler in the place of ours.
        """
        self._loop = asyncio.get_running_loop()
        _set_subreaper(True)
        self._old_handler = signal.signal(signal.SIGCHLD, self._wake)

    def close(self) -> None:
        """Undo ``start``; what still runs is nobody's to reap then."""
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None
        if self._loop is not None:
            signal.signal(signal.SIGCHLD, self._old_handler)
            _set_subreaper(False)
            self._loop = None

    def register(self, child: Child) -> Child:
        """Take on a child: its status is taken from now on, and its tree is looked after.

        To be called before the loop runs again after its spawn: until then nobody reaps.
        """
        child.watcher = self
        self._alive[child.pid] = child
        if child.tag:  # the guardian has none: it is nobody's tree
            self._trees[child] = None
        return child

    @property
    def trees(self) -> list[Child]:
        """Return the children of whose trees something may be left."""
        self._forget_ended()
        return list(self._trees)

    async def look(self) -> Mapping[Child, Sequence[Stat]]:
        """Return what runs of each tree, by a look at the process table that begins from now on.

        The look is in a thread. Many who ask at the same time share one. Cancelling is safe.
        """
        if self._next_scan is None:
            self._next_scan = tasks.spawn(self._look(after=self._scan), name="reaper.look")
        return await asyncio.shield(self._next_scan)

    async def _look(
        self, *, after: asyncio.Task[Mapping[Child, Sequence[Stat]]] | None
    ) -> Mapping[Child, Sequence[Stat]]:
        if after is not None and not after.done():
            await asyncio.wait((after,))
        self._scan, self._next_scan = self._next_scan, None
        children = self.trees
        while True:
            try:
                forest = await asyncio.to_thread(self._sort_out, children)
                break
            except OSError:  # no descriptor is left to look with
                await asyncio.sleep(LOOK_INTERVAL_S)
        self._looked_at = asyncio.get_running_loop().time()
        # A child that was being started meanwhile looked like an orphan; now it is registered.
        leaders = {child.id for child in (*self._alive.values(), *self._trees)}
        members = {
            child: [each for each in found if each.id == child.id or each.id not in leaders]
            for child, found in forest.members.items()
        }
        changed = False
        for child, found in members.items():
            child.known = {each.id for each in found if each.id != child.id}
            away = forest.away[child] & child.known
            changed |= away != child.away
            child.away = away
        if changed and self._on_away is not None:
            self._on_away()
        self._report({each.id for each in forest.strays} - leaders)
        return members

    def _sort_out(self, children: Sequence[Child]) -> ownership.Forest[Child]:
        oldest = min((child.started for child in children), default=None)
        table = procfs.scan(tags_since=oldest)
        return ownership.sort_out(
            table,
            children,
            daemon_id=self._daemon_id,
            spared=self._spared,
            are_ours=True,
        )

    def _report(self, strays: set[ProcId]) -> None:
        new = strays - self._reported
        self._reported = strays
        if self._on_stray is not None:
            for stray in new:
                self._on_stray(stray)

    def _forget_ended(self) -> None:
        """Drop the trees that have ended, and remember what those with a narrow scope left."""
        ended = [child for child in self._trees if child.ended]
        for child in ended:
            del self._trees[child]
        left = [child for child in ended if child.scope == "group"]
        if left:
            processes = self._spared.processes.union(*(child.known for child in left))
            self._spared = ownership.Spared(
                frozenset(each for each in processes if procfs.lives(each)),
                self._spared.tags.union(ownership.stem(child.tag) for child in left),
            )

    def _wake(self, _signum: int, _frame: object) -> None:
        """Have the loop look who has ended; this runs between any two bytecodes of ours."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_sigchld)

    def _on_sigchld(self) -> None:
        """Take the statuses of all that have ended, then see who became our orphan by that."""
        if sys.platform != "linux":
            self._take_each()
        while (ended := _peek()) is not None:
            if not self._take(ended):
                self._take_each()
                break
        if self._trees and self._look_timer is None and self._loop is not None:
            wait = self._looked_at + LOOK_INTERVAL_S - self._loop.time()
            self._look_timer = self._loop.call_later(max(0.0, wait), self._look_at_orphans)

    def _look_at_orphans(self) -> None:
        self._look_timer = None
        tasks.spawn(self.look(), name="reaper.orphans")

    def _take(self, pid: int) -> bool:
        """Take the status of ``pid``; return False if it is not there or somebody else's."""
        child = self._alive.get(pid)
        if child is None:
            ended = procfs.stat(pid)
            if ended is None or ended.sid == os.getsid(0):
                return False
        status = _wait(pid)
        if status is None:
            return False
        if child is not None:
            del self._alive[pid]
            child.publish_exit(status, procfs.ticks_now())
        return True

    def _take_each(self) -> None:
        """Do what the loop over any child's end does where one of somebody else's stands first."""
        for pid in list(self._alive):
            self._take(pid)
        if sys.platform != "linux":
            return  # and no orphans come to us
        with contextlib.suppress(OSError):
            for each in procfs.scan():
                if each.ppid == os.getpid() and not each.lives:
                    self._take(each.pid)


def _peek() -> int | None:
    """Return the pid of any child that has ended, and leave its status where it is."""
    if sys.platform != "linux":
        return None  # there is no waitid before Python 3.13
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


def _wait(pid: int) -> int | None:
    """Take the exit status of ``pid``, negative for a signal; ``None`` if it has not ended."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended else None


def _set_subreaper(on: bool) -> None:
    """Have orphaned descendants become our children rather than init's (Linux only)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
