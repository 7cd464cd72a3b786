"""How many files we may have open, how many we have, and which are nobody else's."""

from __future__ import annotations

import os
import resource
import sys

from mcpd.api.status import NofileStatus

KEPT_BACK = 32
"""Below the limit, a quarter of it at most, that neither servers nor clients get: with none left
we could not even look whether a process has gone."""

_TABLE = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def usable() -> int:
    """Return below which number servers and clients may get descriptors, as things are now."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return soft - min(KEPT_BACK, soft // 4)


def limits() -> NofileStatus:
    """Return what ``status`` tells of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {"soft": _number(soft), "hard": _number(hard), "open": _count()}


def _number(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def _count() -> int | None:
    try:
        return len(os.listdir(_TABLE)) - 1  # the one that it is read with
    except OSError:
        return None
