"""Whose descendant a process is: its parents, up to the first process of the machine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId

MOST: Final = 100
"""Processes that are looked at, from one upwards."""

_MANAGERS: Final = ("systemd", "launchd", "init")
"""Programs below which everything of a user runs: who is below one says nothing."""


def chain(pid: int) -> list[ProcId]:
    """Return a process and its parents, the process itself first, as far as they are there."""
    found: list[ProcId] = []
    while pid > 1 and len(found) < MOST:
        stat = procfs.stat(pid)
        if stat is None:
            break
        found.append(stat.id)
        pid = stat.ppid
    return found


def parent(pid: int) -> int | None:
    """Return the pid of the parent, ``None`` where there is none that says anything."""
    stat = procfs.stat(pid)
    return None if stat is None or is_manager(stat.ppid) else stat.ppid


def is_manager(pid: int) -> bool:
    """Return whether everything of a user, or of the machine, runs below this process."""
    if pid <= 1:
        return True
    return program(pid) in _MANAGERS


def program(pid: int) -> str | None:
    """Return the name of a process's program, ``None`` where it cannot be told."""
    names = [word.rpartition("/")[2] for word in procfs.arguments(pid)[:2]]
    if len(names) > 1 and names[0].startswith("python") and not names[1].startswith("-"):
        return names[1] or None
    return (names[0] or None) if names else None


def is_below(pid: int, processes: Collection[ProcId]) -> bool:
    """Return whether a process is one of these, or has one among its parents."""
    return bool(processes) and not set(processes).isdisjoint(chain(pid))
