"""Which process listens on a port, as far as the system tells."""

from __future__ import annotations

import psutil  # type: ignore[import-untyped]


def holder_of(port: int) -> str | None:
    """Return the name and pid of who listens on a TCP port. Blocks while it reads."""
    try:
        found = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for each in found:
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port:
            return None if each.pid is None else _named(each.pid)
    return None


def _named(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})"
    except psutil.Error:
        return f"pid {pid}"
