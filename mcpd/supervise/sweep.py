"""What a new daemon does about those that died before it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from typing import NamedTuple

import msgspec

from mcpd import privatefiles
from mcpd.supervise import ledger, orphans, procfs
from mcpd.supervise.containers import CONTAINERS, tag_of
from mcpd.supervise.ledgerfile import LIMIT_BYTES, Recorded, decode

GUARDIAN_WAIT_S = 10.0
"""For guardians that are at work to finish it, all of them together."""

PAUSE_S = 0.05


class _Found(NamedTuple):
    """What was ended of one dead daemon's."""

    reaped: int
    containers: int
    containers_left: list[str]


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in the ledger directory."""

    reaped: int = 0
    """Processes of dead daemons that were still there, and are not any more."""

    containers: int = 0
    """Servers of theirs that ran in containers, none of which runs any more."""

    containers_left: tuple[str, ...] = ()
    """What could not be ended, a sentence each; the next daemon tries again."""

    dead: int = 0
    """Ledgers of dead daemons, removed unless containers are left."""

    left: int = 0
    """Ledgers left alone: of living daemons, of another boot, of another pid namespace."""

    set_aside: tuple[str, ...] = ()
    """Files that are no ledgers; each is kept under its name with ``.corrupt`` at the end."""


async def sweep_dead(state_dir: str, *, own: str | None = None) -> SweepReport:
    """End what dead daemons left behind; to be done before the first server is started.

    ``own`` is the id of this daemon, whose ledger is not looked at. Only a ledger whose daemon is
    provably dead, of this boot and this pid namespace, is acted on, and only after its guardian
    has had its time. Takes a second where there is something to end, else milliseconds; in a
    thread. Never raises for what is found on disk.
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
    """Remove the files with ids of containers that no ledger names: those of an earlier boot."""
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
    """Return what was ended of a dead daemon's, or ``None`` if it is to be left.

    A text is the new name of a file that is no ledger.
    """
    with contextlib.ExitStack() as stack:
        # The lock is ours then for as long as we work: two new daemons do not both do it.
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
    """Take a lock until ``stack`` unwinds; return False if somebody has it, or it is no lock."""
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


def _read(daemon_id: str, directory: int) -> Recorded:
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
