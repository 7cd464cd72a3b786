"""Ends the processes of dead daemons, before a new daemon starts its first server."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from typing import NamedTuple

import msgspec

from mcpd import privatefiles
from mcpd.supervise.cleanup import ledger, orphans
from mcpd.supervise.cleanup.ledgerfile import LIMIT_BYTES, DaemonRecord, decode
from mcpd.supervise.containers import CONTAINERS, tag_of
from mcpd.supervise.proctable import procfs

GUARDIAN_WAIT_S = 10.0
"""Seconds to wait for guardians that are ending processes, for all of them together."""

PAUSE_S = 0.05


class _Found(NamedTuple):
    """What one dead daemon had left and was ended."""

    reaped: int
    containers: int
    containers_left: list[str]


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sweep of the ledger directory."""

    reaped: int = 0
    """Processes of dead daemons that were ended."""

    containers: int = 0
    """Their servers whose containers were ended."""

    containers_left: tuple[str, ...] = ()
    """A sentence for each container that could not be ended; the next daemon tries again."""

    dead: int = 0
    """Ledgers of dead daemons, removed unless containers are left."""

    left: int = 0
    """Ledgers that were skipped: of living daemons, of another boot, of another pid namespace."""

    set_aside: tuple[str, ...] = ()
    """Files that are no ledgers; each was renamed to end in ``.corrupt``."""


async def sweep_dead(state_dir: str, *, own: str | None = None) -> SweepReport:
    """End the processes and containers of dead daemons; await this before starting a server.

    ``own`` is the id of this daemon, whose ledger is skipped. A ledger is acted on only if its
    daemon is provably dead and was of this boot and pid namespace, and only after its guardian has
    had time to work. Takes a second if there are processes to end, otherwise milliseconds, in a
    thread. Never raises because of files in the directory.
    """
    report = await asyncio.to_thread(_sweep, os.path.join(state_dir, "ledger"), own)
    await asyncio.to_thread(_remove_ids, state_dir, own)
    return report


def _sweep(path: str, own: str | None) -> SweepReport:
    reaped = containers = dead = left = 0
    set_aside: list[str] = []
    containers_left: list[str] = []
    deadline = time.monotonic() + GUARDIAN_WAIT_S
    with contextlib.ExitStack() as stack:
        try:
            directory = privatefiles.open_directory(path)
            stack.callback(os.close, directory)
            names = sorted(os.listdir(directory))
        except OSError:
            return SweepReport()
        for name in names:
            daemon_id, dot, ending = name.rpartition(".")
            if not dot or ending != "json" or daemon_id in ("", own) or name.startswith("."):
                continue
            found = _sweep_one(daemon_id, directory, deadline, own)
            if found is None:
                left += 1
            elif isinstance(found, str):
                set_aside.append(os.path.join(path, found))
            else:
                dead += 1
                reaped += found.reaped
                containers += found.containers
                containers_left += found.containers_left
                if not found.containers_left:
                    with contextlib.suppress(OSError):
                        ledger.remove(path, daemon_id)
    return SweepReport(
        reaped=reaped,
        containers=containers,
        containers_left=tuple(containers_left),
        dead=dead,
        left=left,
        set_aside=tuple(set_aside),
    )


def _remove_ids(state_dir: str, own: str | None) -> None:
    """Remove container id files without a ledger: those of an earlier boot."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        directory = privatefiles.open_directory(os.path.join(state_dir, CONTAINERS))
        stack.callback(os.close, directory)
        for name in os.listdir(directory):
            daemon_id = name.partition("-")[0]
            recorded = os.path.join(state_dir, "ledger", f"{daemon_id}.json")
            if daemon_id != own and not os.path.lexists(recorded):
                os.unlink(name, dir_fd=directory)


def _sweep_one(
    daemon_id: str, directory: int, deadline: float, own: str | None
) -> _Found | str | None:
    """Return what one dead daemon had left, ``None`` if its ledger was skipped.

    For a file that is no ledger, return its new name.
    """
    with contextlib.ExitStack() as stack:
        # Held until this function returns, so that no other new daemon does the same work.
        if not _try_lock(f"{daemon_id}.lock", directory, stack):
            return None
        try:
            recorded = _read(daemon_id, directory)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return _set_aside(f"{daemon_id}.json", directory)
        here = (procfs.boot_id(), procfs.pid_namespace())
        if (recorded.boot_id, recorded.pid_namespace) != here:
            return None
        if procfs.identify(recorded.daemon.pid) == recorded.daemon:
            return None
        while not _try_lock(f"{daemon_id}.guard", directory, stack):
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        reaped = orphans.end(recorded)
        tag = None if own is None else tag_of(own)
        return _Found(reaped, *orphans.end_containers(recorded, tag=tag))


def _try_lock(name: str, directory: int, stack: contextlib.ExitStack) -> bool:
    """Hold a lock until ``stack`` unwinds; return False if another process holds it."""
    try:
        fd = privatefiles.open_file(name, os.O_RDWR | os.O_CREAT, directory=directory)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return False
    stack.callback(os.close, fd)
    return True


def _read(daemon_id: str, directory: int) -> DaemonRecord:
    fd = privatefiles.open_file(f"{daemon_id}.json", os.O_RDONLY, directory=directory)
    with os.fdopen(fd, "rb") as file:
        recorded = decode(file.read(LIMIT_BYTES))
    if recorded.daemon_id != daemon_id:
        raise ValueError("a ledger under another one's name")
    return recorded


def _set_aside(name: str, directory: int) -> str | None:
    try:
        os.rename(name, f"{name}.corrupt", src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        return None
    return f"{name}.corrupt"
