"""Reads the ledgers in the state directory: living daemons, and processes left by dead ones."""

from __future__ import annotations

import contextlib
import os

from mcpd import privatefiles
from mcpd.doctor.facts import Ledger
from mcpd.supervise.cleanup.ledgerfile import LIMIT_BYTES, DaemonRecord, decode
from mcpd.supervise.proctable import ownership, procfs


def ledgers(state_dir: str) -> tuple[Ledger, ...]:
    """Return the ledgers of this boot and this pid namespace."""
    directory = os.path.join(state_dir, "ledger")
    here = (procfs.boot_id(), procfs.pid_namespace())
    found = []
    table: list[procfs.Stat] | None = None
    for name, recorded in _read(directory):
        if (recorded.boot_id, recorded.pid_namespace) != here:
            continue
        path = os.path.join(directory, name)
        pid = recorded.daemon.pid
        if procfs.lives(recorded.daemon):
            socket = _socket_of(pid)
            found.append(Ledger(file=path, pid=pid, is_alive=True, socket=socket))
            continue
        if table is None:
            table = procfs.scan(tags_since=0)
        left = _orphans(recorded, table)
        found.append(Ledger(file=path, pid=pid, is_alive=False, orphans=left))
    return tuple(found)


def _read(path: str) -> list[tuple[str, DaemonRecord]]:
    """Return the valid ledgers in a directory, without following links."""
    found = []
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        for name in sorted(os.listdir(directory)):
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                fd = privatefiles.open_file(name, os.O_RDONLY, directory=directory)
                with os.fdopen(fd, "rb") as file:
                    found.append((name, decode(file.read(LIMIT_BYTES))))
            except (OSError, ValueError):  # a new daemon sets it aside
                continue
    finally:
        os.close(directory)
    return found


def _orphans(recorded: DaemonRecord, table: list[procfs.Stat]) -> tuple[int, ...]:
    """Return the pids of a dead daemon's recorded or tagged processes that still run."""
    known = {procfs.ProcId(each.pid, each.started) for each in recorded.entries}
    known |= {process for each in recorded.entries for process in each.seen}
    prefix = f"{recorded.daemon_id}:"
    spared = ownership.Spared(tags=frozenset(recorded.spared))
    return tuple(
        each.pid
        for each in table
        if each.lives
        and (each.id in known or (each.tag is not None and each.tag.startswith(prefix)))
        and not spared.has(each)
    )


def _socket_of(pid: int) -> str | None:
    """Return the path on which a process listens (proc(5), ``/proc/net/unix``)."""
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()[1:]
    except OSError:
        return None
    targets = set()
    for fd in fds:
        with contextlib.suppress(OSError):  # closed since
            targets.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    for line in lines:
        words = line.split(None, 7)
        is_listening = len(words) == 8 and words[3] == "00010000"  # __SO_ACCEPTCON
        if is_listening and f"socket:[{words[6]}]" in targets:
            return words[7]
    return None
