"""What the loop does with the members of a tree: list them, signal them, wait for their ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable

from mcpd.supervise.process import Child
from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId, Stat

POLL_S = 0.05
"""Between two looks at a process for which no pidfd is to be had."""


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
