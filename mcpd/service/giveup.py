"""Makes launchd stop restarting a daemon that cannot start.

launchd restarts a job for as long as it fails, and has no list of final exit statuses. It stops
after a status of 0 (``SuccessfulExit``), so the daemon ends with 0 after some failed starts.
"""

from __future__ import annotations

import contextlib
import os
import time

DOOMED = (2, 73, 75, 78)
"""Exit statuses that every further start would have too: see ``mcpd.cli``."""

MOST = 5
"""Failed starts within ``WITHIN_S`` before launchd is told to stop."""

WITHIN_S = 600.0
"""Seconds; older failures do not count."""

FILE = "service.failures"
"""In the state directory: a line for each failure, seconds since boot and status."""

_MOST_BYTES = 4096


def judge(status: int, state_dir: str) -> int:
    """Record a failed start and return the status to end with.

    That is 0 after ``MOST`` failures within ``WITHIN_S``, otherwise ``status``. If the failures
    cannot be recorded it is 0 at once, as launchd would never stop otherwise.
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
    """Return the recorded failures: the time in seconds since boot, and the status."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(os.path.join(state_dir, FILE), flags)
        with os.fdopen(fd, "rb") as file:
            for line in file.read(_MOST_BYTES).decode().splitlines():
                at, status = line.split()
                found.append((float(at), int(status)))
    return found
