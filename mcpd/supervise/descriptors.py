"""How many files we may have open, how many we have, and which are nobody else's."""

from __future__ import annotations

import os
import resource
import sys

from mcpd.api.status import NofileStatus

KEPT_BACK = 48
"""Below the limit, a quarter of it at most, that neither servers nor clients get: with none left
we could not even look whether a process has gone."""

OURS = 32
"""Of these, two thirds at most that are the daemon's own; the others are for control requests."""

_TABLE = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def usable() -> int:
    """Return below which number servers and clients may get descriptors, as things are now."""
    return _below(KEPT_BACK, 4)


def usable_for_control() -> int:
    """Return below which number connections may that are for control requests alone."""
    return _below(OURS, 6)


def _below(kept: int, share: int) -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft - min(kept, soft // share)


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
