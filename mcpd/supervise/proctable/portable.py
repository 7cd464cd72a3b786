"""The process table of systems without ``/proc`` (macOS), read through psutil."""

from __future__ import annotations

import contextlib
import os

import psutil  # type: ignore[import-untyped]

TICKS_PER_SECOND = 100


def pids() -> list[int]:
    """Return the pids of all processes."""
    return list(psutil.pids())


def stat(pid: int) -> tuple[int, int, int, str, int] | None:
    """Return parent, group, session, state and start of ``pid``, or ``None``.

    The start is in hundredths of a second of the wall clock, because macOS has no ticks since boot.
    """
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state = "Z" if process.status() == psutil.STATUS_ZOMBIE else "R"
            started = int(process.create_time() * TICKS_PER_SECOND)
            return process.ppid(), os.getpgid(pid), os.getsid(pid), state, started
    except (psutil.Error, OSError):
        return None


def tag_of(pid: int, name: str) -> str | None:
    """Return the variable ``name`` of the initial environment of ``pid``, if we may read it."""
    with contextlib.suppress(psutil.Error, OSError):
        value = psutil.Process(pid).environ().get(name)
        return None if value is None else str(value)
    return None


def rss_bytes(pid: int) -> int:
    """Return the resident memory of ``pid``; 0 if it has ended or may not be read."""
    with contextlib.suppress(psutil.Error, OSError):
        return int(psutil.Process(pid).memory_info().rss)
    return 0
