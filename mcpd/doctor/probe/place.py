"""Examines the socket, its directory and its lock, and the process that holds the lock."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping

from mcpd import paths
from mcpd.client.process import lock_holder
from mcpd.doctor.facts import Daemon, Kind, Node, Place
from mcpd.supervise.proctable import procfs

_KINDS: dict[int, Kind] = {
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "directory",
    stat.S_IFSOCK: "socket",
    stat.S_IFREG: "file",
}


def node(path: str) -> Node:
    """Return the file at ``path``; one that cannot be examined counts as absent."""
    try:
        found = os.lstat(path)
    except OSError:
        return Node(path=path)
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return Node(path=path, kind=kind, uid=found.st_uid, mode=stat.S_IMODE(found.st_mode))


def place(path: str, wanted: str) -> Place:
    """Examine the socket ``path``; ``wanted`` is the path before it was shortened."""
    lock = paths.lock_path(path)
    return Place(
        wanted=wanted,
        directory=node(os.path.dirname(path)),
        socket=node(path),
        lock=node(lock),
        holder=lock_holder(lock),
    )


def daemon(pid: int) -> Daemon:
    """Examine a daemon's process."""
    found = procfs.stat(pid)
    return Daemon(
        pid=pid,
        state=None if found is None or not procfs.HAVE_PROC else found.state,
        nofile=_nofile(pid),
        open_fds=_open_fds(pid),
        unit=_unit(pid),
    )


def environment(pid: int) -> dict[str, str] | None:
    """Return the initial environment of a process, or ``None`` if the system does not report it.

    It holds secrets: use it for resolving, and never show it.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [each.partition(b"=") for each in file.read().split(b"\0") if each]
    except OSError:
        return None
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def config_option(argv: list[str]) -> str | None:
    """Return the value of ``--config`` in a daemon's command line."""
    for number, word in enumerate(argv):
        if word == "--config" and number + 1 < len(argv):
            return argv[number + 1]
        if word.startswith("--config="):
            return word.partition("=")[2]
    return None


def wanted_path(override: str | None, env: Mapping[str, str]) -> str:
    """Return the path of the requested or default socket, before it is shortened."""
    asked = override or env.get("MCPD_SOCKET")
    if asked:
        return os.path.abspath(asked)
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return os.path.abspath(f"{runtime}/mcpd/mcpd.sock")
    return paths.socket_path(None, env)


def _nofile(pid: int) -> tuple[int, int] | None:
    if sys.platform != "linux":
        return None
    import resource

    try:
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)
    except OSError:
        return None


def _open_fds(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def _unit(pid: int) -> str | None:
    """Return the innermost service or scope of a process (cgroup v2, or systemd's v1)."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            groups = file.read().splitlines()
    except OSError:
        return None
    for group in groups:
        number, controllers, path = (*group.split(":", 2), "", "")[:3]
        if number == "0" or controllers == "name=systemd":
            named = [part for part in path.split("/") if part.endswith((".service", ".scope"))]
            return named[-1] if named else None
    return None
