"""Operations on the members of a process tree: list them, signal them, wait for them to end."""

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
"""Seconds between two checks of a process for which there is no pidfd."""


async def members(child: Child) -> list[Stat]:
    """Return the living processes of a child's tree that its ``stop_scope`` includes."""
    assert child.scanner is not None, "a child is registered with the reaper when it is spawned"
    found = (await child.scanner.scan_trees()).get(child, ())
    if child.scope == "group":
        return [each for each in found if each.sid == child.pid]
    return list(found)


async def pids(child: Child) -> list[int]:
    """Return the pids of a child's tree, the child's own first."""
    return [each.pid for each in await members(child)]


def signal_all(processes: Iterable[ProcId], signum: int) -> list[ProcId]:
    """Send a signal to each of these processes; return those that still existed."""
    return [each for each in processes if procfs.send(each, signum)]


async def wait_gone(processes: Iterable[ProcId], timeout: float) -> bool:
    """Wait up to ``timeout`` seconds until all these processes have ended; return whether they did.

    Woken through pidfds. Cancelling is safe.
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
    """Wait up to ``timeout`` seconds for the end of ``process``; may return earlier."""
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
        if procfs.lives(process):  # else the pidfd may belong to a process that reuses the pid
            await asyncio.wait((ended,), timeout=timeout)
    finally:
        with contextlib.suppress(ValueError):
            loop.remove_reader(fd)
        os.close(fd)
