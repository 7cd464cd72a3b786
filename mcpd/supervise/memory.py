"""How much memory a process tree takes."""

from __future__ import annotations

import os
from collections.abc import Iterable

from mcpd.supervise import procfs

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def tree_usage(pids: Iterable[int]) -> int:
    """Return the resident bytes of these processes together; those that are gone count nothing.

    Pages that they share are counted for each. Source: proc(5), ``/proc/PID/statm``.
    """
    return sum(_rss_bytes(pid) for pid in pids)


def _rss_bytes(pid: int) -> int:
    if not procfs.HAVE_PROC:
        from mcpd.supervise import portable

        return portable.rss_bytes(pid)
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read(256).split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
