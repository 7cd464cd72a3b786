"""The memory that a process tree uses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from mcpd.supervise.proctable import procfs

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def tree_usage(pids: Iterable[int]) -> int:
    """Return the sum of the resident bytes of these processes; those that have ended count 0.

    Shared pages are counted once for each process. Source: proc(5), ``/proc/PID/statm``.
    """
    return sum(_rss_bytes(pid) for pid in pids)


def excess(pids: Sequence[int], limit: int) -> int | None:
    """Return the proportional set size of these processes if it exceeds ``limit`` bytes.

    The proportional set size divides a shared page among the processes that map it, so ten workers
    of one program are not counted ten times. The kernel takes a millisecond for each few hundred
    megabytes to compute it, so it is read only if the resident size exceeds the limit. Swapped
    pages do not count. Source: proc(5), ``/proc/PID/smaps_rollup``. Run it in a thread.
    """
    if tree_usage(pids) <= limit:
        return None
    takes = sum(_share_bytes(pid) for pid in pids)
    return takes if takes > limit else None


def _share_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:  # another user's, an old kernel, another system
        return _rss_bytes(pid)
    return 0


def _rss_bytes(pid: int) -> int:
    if not procfs.HAVE_PROC:
        from mcpd.supervise.proctable import portable

        return portable.rss_bytes(pid)
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read(256).split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
