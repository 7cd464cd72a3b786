"""Collects the exit statuses of our children and of the orphans that we adopt as subreaper."""

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

SCAN_INTERVAL_S = 0.25
"""Seconds at least between two scans of the process table that ends of processes trigger."""


class Reaper:
    """Collects exit statuses, and finds which processes belong to which child.

    Invariant: a status is collected only for the pid of a registered child or of an adopted orphan.
    Processes that other code of this program starts stay in our session and are left to that code.
    """

    def __init__(
        self,
        daemon_id: str,
        *,
        on_orphan: Callable[[ProcId], None] | None = None,
        on_escape: Callable[[], None] | None = None,
    ) -> None:
        """Create a reaper; ``start`` makes it work.

        ``on_orphan`` is called once for each orphan that belongs to no living tree; the caller ends
        it. ``on_escape`` is called when the set of processes that have left the session of their
        tree changes. Only a scan that saw their parents can find them, so the ledger records them.
        """
        self._daemon_id = daemon_id
        self._on_orphan = on_orphan
        self._on_escape = on_escape
        self._alive: dict[int, Child] = {}
        self._trees: dict[Child, None] = {}
        """Children whose trees have not ended, in the order of their start."""
        self._spared = ownership.Spared()
        self._reported: set[ProcId] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._old_handler: Any = signal.SIG_DFL
        self._scan: asyncio.Task[Mapping[Child, Sequence[Stat]]] | None = None
        self._next_scan: asyncio.Task[Mapping[Child, Sequence[Stat]]] | None = None
        self._scanned_at = 0.0
        self._scan_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Become the subreaper of all descendants and handle SIGCHLD on the running loop.

        Call it in the main thread. It does not use ``add_signal_handler``, which uvloop refuses for
        SIGCHLD. Nothing in this process may use the loop's own ``subprocess_exec``: libuv would
        replace our signal handler.
        """
        self._loop = asyncio.get_running_loop()
        _set_subreaper(True)
        self._old_handler = signal.signal(signal.SIGCHLD, self._wake)

    def close(self) -> None:
        """Undo ``start``. Processes that still run are not reaped afterwards."""
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None
        if self._loop is not None:
            signal.signal(signal.SIGCHLD, self._old_handler)
            _set_subreaper(False)
            self._loop = None

    def register(self, child: Child) -> Child:
        """Collect this child's exit status from now on, and include its tree in scans.

        Call it after the spawn before the loop runs again: until then nothing is reaped.
        """
        child.scanner = self
        self._alive[child.pid] = child
        if child.tag:  # the guardian has none, and no tree of its own
            self._trees[child] = None
        return child

    @property
    def trees(self) -> list[Child]:
        """Return the children whose trees have not ended."""
        self._drop_ended()
        return list(self._trees)

    async def scan_trees(self) -> Mapping[Child, Sequence[Stat]]:
        """Return the living processes of each tree, from a scan that begins after this call.

        The scan runs in a thread; concurrent callers share one. Cancelling is safe.
        """
        if self._next_scan is None:
            self._next_scan = tasks.spawn(self._scan_trees(after=self._scan), name="reaper.scan")
        return await asyncio.shield(self._next_scan)

    async def _scan_trees(
        self, *, after: asyncio.Task[Mapping[Child, Sequence[Stat]]] | None
    ) -> Mapping[Child, Sequence[Stat]]:
        if after is not None and not after.done():
            await asyncio.wait((after,))
        self._scan, self._next_scan = self._next_scan, None
        children = self.trees
        while True:
            try:
                forest = await asyncio.to_thread(self._assign, children)
                break
            except OSError:  # no descriptor is left to scan with
                await asyncio.sleep(SCAN_INTERVAL_S)
        self._scanned_at = asyncio.get_running_loop().time()
        # A child that was started during the scan was taken for an orphan; it is registered now.
        leaders = {child.id for child in (*self._alive.values(), *self._trees)}
        members = {
            child: [each for each in found if each.id == child.id or each.id not in leaders]
            for child, found in forest.members.items()
        }
        changed = False
        for child, found in members.items():
            child.known = {each.id for each in found if each.id != child.id}
            away = forest.escaped[child] & child.known
            changed |= away != child.escaped
            child.escaped = away
        if changed and self._on_escape is not None:
            self._on_escape()
        self._report({each.id for each in forest.unowned} - leaders)
        return members

    def _assign(self, children: Sequence[Child]) -> ownership.Forest[Child]:
        oldest = min((child.started for child in children), default=None)
        table = procfs.scan(tags_since=oldest)
        return ownership.assign(
            table,
            children,
            daemon_id=self._daemon_id,
            spared=self._spared,
            are_ours=True,
        )

    def _report(self, orphans: set[ProcId]) -> None:
        new = orphans - self._reported
        self._reported = orphans
        if self._on_orphan is not None:
            for orphan in new:
                self._on_orphan(orphan)

    def _drop_ended(self) -> None:
        """Drop the trees that have ended, and record what those with scope ``group`` have left."""
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
        """Schedule ``_on_sigchld`` on the loop; a signal handler runs between any two bytecodes."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_sigchld)

    def _on_sigchld(self) -> None:
        """Collect the status of each process that has ended, then scan for new orphans."""
        if sys.platform != "linux":
            self._take_each()
        while (ended := _peek()) is not None:
            if not self._take(ended):
                self._take_each()
                break
        if self._trees and self._scan_timer is None and self._loop is not None:
            wait = self._scanned_at + SCAN_INTERVAL_S - self._loop.time()
            self._scan_timer = self._loop.call_later(max(0.0, wait), self._find_orphans)

    def _find_orphans(self) -> None:
        self._scan_timer = None
        tasks.spawn(self.scan_trees(), name="reaper.orphans")

    def _take(self, pid: int) -> bool:
        """Collect the status of ``pid``; return False if there is none or it is not ours."""
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
        """Collect the status of each known process; a foreign child may block the fast way."""
        for pid in list(self._alive):
            self._take(pid)
        if sys.platform != "linux":
            return  # only Linux has subreapers, so there are no orphans
        with contextlib.suppress(OSError):
            for each in procfs.scan():
                if each.ppid == os.getpid() and not each.lives:
                    self._take(each.pid)


def _peek() -> int | None:
    """Return the pid of any child that has ended, without collecting its status."""
    if sys.platform != "linux":
        return None  # there is no waitid before Python 3.13
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


def _wait(pid: int) -> int | None:
    """Collect the exit status of ``pid``, negative for a signal; ``None`` if it has not ended."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended else None


def _set_subreaper(on: bool) -> None:
    """Make this process the new parent of orphaned descendants, or stop it (Linux only)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
