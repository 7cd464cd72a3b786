"""How much memory a process tree takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from mcpd.supervise.proctable import procfs

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def tree_usage(pids: Iterable[int]) -> int:
    """Return the resident bytes of these processes together; those that are gone count nothing.

    Pages that they share are counted for each. Source: proc(5), ``/proc/PID/statm``.
    """
    return sum(_rss_bytes(pid) for pid in pids)


def excess(pids: Sequence[int], limit: int) -> int | None:
    """Return the bytes that these processes take together if that is more than ``limit``.

    Pages that several map are shared out among them, so that ten workers of one program are not
    ten times as large. To learn that takes the kernel a millisecond for each few hundred megabytes,
    so it is asked only of those that would be too large otherwise. What is swapped out does not
    count. Source: proc(5), ``/proc/PID/smaps_rollup``. Not for the event loop.
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
