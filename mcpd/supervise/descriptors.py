"""Limits on open file descriptors, and the descriptors reserved for the daemon itself."""

from __future__ import annotations

import os
import resource
import sys

from mcpd.api.status import NofileStatus

KEPT_BACK = 48
"""Descriptors below the limit (at most a quarter of it) that servers and clients do not get. With
none left the daemon could not even check whether a process has ended."""

OURS = 32
"""Those of the reserve (at most two thirds) for the daemon alone; control requests get the rest."""

_TABLE = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def usable() -> int:
    """Return the descriptor number below which servers and clients may get descriptors now."""
    return _below(KEPT_BACK, 4)


def usable_for_control() -> int:
    """Return the descriptor number below which control connections may get descriptors now."""
    return _below(OURS, 6)


def _below(kept: int, share: int) -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft - min(kept, soft // share)


def limits() -> NofileStatus:
    """Return the limits and the number of open descriptors, as ``mcpd/status`` reports them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {"soft": _number(soft), "hard": _number(hard), "open": _count()}


def _number(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def _count() -> int | None:
    try:
        return len(os.listdir(_TABLE)) - 1  # the one that it is read with
    except OSError:
        return None
