"""Telling a manager that starts a doomed daemon again and again that it may let it be.

launchd starts what has failed for as long as it fails, and has no list of statuses that are
final. It stops at a status of 0 (``SuccessfulExit``), so that is what it gets in the end.
"""

from __future__ import annotations

import contextlib
import os
import time

DOOMED = (2, 73, 75, 78)
"""Statuses after which nothing changes by itself: see ``mcpd.cli``."""

MOST = 5
"""So many times in a row it may fail: whoever mends the configuration meanwhile need do no more."""

WITHIN_S = 600.0

FILE = "service.failures"
"""In the state directory: a line for each failure, seconds since boot and status."""

_MOST_BYTES = 4096


def judge(status: int, state_dir: str) -> int:
    """Return the status to end with: 0 once a start has failed ``MOST`` times within ``WITHIN_S``.

    Where failures cannot be counted it is 0 at once, for else there is no end to them.
    """
    if status not in DOOMED:
        return status
    now = time.monotonic()
    path = os.path.join(state_dir, FILE)
    recent = [each for each in failures(state_dir) if 0 <= now - each[0] <= WITHIN_S]
    recent = [*recent, (now, status)][-MOST:]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, 0o600)
        try:
            os.write(fd, "".join(f"{int(at)} {code}\n" for at, code in recent).encode())
        finally:
            os.close(fd)
    except OSError:
        return 0
    return 0 if len(recent) >= MOST else status


def failures(state_dir: str) -> list[tuple[float, int]]:
    """Return the last failures that were counted: when, in seconds since boot, and the status."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(os.path.join(state_dir, FILE), flags)
        with os.fdopen(fd, "rb") as file:
            for line in file.read(_MOST_BYTES).decode().splitlines():
                at, status = line.split()
                found.append((float(at), int(status)))
    return found
