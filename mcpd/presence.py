"""The process behind the socket: whether it is a daemon of ours, and how long it is waited for.

Standard library only, and for clients: nothing here disturbs the process that is looked at.
"""

from __future__ import annotations

import os
import socket
import sys
import time

from mcpd import paths
from mcpd.errors import DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_S = 1.7
"""For an answer that a daemon gives at once: milliseconds, if it is merely busy. With the start of
a command it is under two seconds until somebody reads what is wrong."""

LOADING_S = 20.0
"""A daemon listens before it has loaded what it needs to answer, on a busy machine for long."""

LOOK_AGAIN_S = 0.2

STOPPED = ("T", "t")
"""States of a process that a signal, or a debugger, has stopped."""

MANAGERS = ("systemd", "launchd", "init")
"""Who makes a socket that a daemon is started for."""

HAVE_PROC = sys.platform == "linux"


class Patience:
    """How long the first word of whoever listens on the other end of a connection is waited for.

    The one rule for all clients: ``ANSWER_S``, but ``LOADING_S`` as long as the daemon is young,
    has not said that it has loaded, and is not stopped. Once it says so it has ``ANSWER_S`` again.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._began = time.monotonic()
        self._loading_at = float("-inf")  # monotonic; when it was last seen to load
        self._path = path_of(connection)
        self._peer, _ = peer_of(connection)
        self.pid = who_is(self._path, self._peer)

    def left(self) -> float:
        """Return for how many seconds to wait before asking this again; 0: no longer at all."""
        now = time.monotonic()
        waited = now - self._began
        if waited < ANSWER_S:
            return ANSWER_S - waited
        if waited < LOADING_S and self._may_be_loading():
            self._loading_at = now
            return LOOK_AGAIN_S
        has_loaded_since = self.pid is not None and has_loaded(self._path, self.pid)
        return max(0.0, self._loading_at + ANSWER_S - now) if has_loaded_since else 0.0

    def exhausted(self) -> DaemonUnavailable:
        """Return what to say when it is."""
        return unresponsive(self._path, self.pid, time.monotonic() - self._began)

    def _may_be_loading(self) -> bool:
        self.pid = who_is(self._path, self._peer)
        if self.pid is None or not is_mcpd(self.pid):
            words = [] if self._peer is None else _words(self._peer)
            return bool(words) and words[0] in MANAGERS
        age = age_of(self.pid)
        is_young = age is not None and age < LOADING_S and not has_loaded(self._path, self.pid)
        return is_young and not is_stopped(self.pid)


def unresponsive(path: str, pid: int | None, waited_s: float) -> DaemonUnavailable:
    """Return what to say of a daemon that does not answer, and what to type."""
    who = "" if pid is None else f", pid {pid}"
    is_asleep = pid is not None and is_stopped(pid)
    what = "it is stopped (SIGSTOP)" if is_asleep else f"no answer within {waited_s:.2g} s"
    first = f"to let it go on: kill -CONT {pid}; " if is_asleep else ""
    return DaemonUnavailable(
        f"the daemon is unresponsive{who}: {what}",
        hint=f"{first}to end it, with its servers: mcpctl down --force",
        why="unresponsive",
        pid=pid,
        path=path,
    )


def peer_of(connection: socket.socket) -> tuple[int | None, int]:
    """Return pid (``None`` where the system does not tell) and uid of who made the listener."""
    if sys.platform == "darwin":
        found = connection.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED: struct xucred
        pid = int.from_bytes(connection.getsockopt(0, 2, 4), sys.byteorder)  # LOCAL_PEERPID
        return pid or None, int.from_bytes(found[4:8], sys.byteorder)
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid = (int.from_bytes(found[at : at + 4], sys.byteorder) for at in (0, 4))
    return pid or None, uid


def path_of(connection: socket.socket) -> str:
    """Return the path of the socket that a connection leads to; empty for one without."""
    try:
        name = connection.getpeername()
    except OSError:  # hung up already
        return ""
    return name if isinstance(name, str) else ""


def who_is(path: str, peer: int | None) -> int | None:
    """Return the pid of the daemon on ``path``; ``peer`` made the listener, as the kernel says.

    That is the daemon itself or a service manager; then it is who holds the lock.
    """
    if peer is not None and is_mcpd(peer):
        return peer
    holder = pid_in_lock(path)
    return holder if holder is not None and is_daemon_of(holder, path) else peer


def pid_in_lock(path: str) -> int | None:
    """Return what the lock of ``path`` says about who holds it; only a hint where to look."""
    words = _in_lock(path)
    return int(words[0]) if words and words[0].isdigit() and int(words[0]) > 1 else None


def has_loaded(path: str, pid: int) -> bool:
    """Tell whether that daemon has said in its lock that it answers."""
    return _in_lock(path)[:2] == [b"%d" % pid, b"ready"]


def _in_lock(path: str) -> list[bytes]:
    try:
        with open(paths.lock_path(path), "rb") as file:
            return file.read(64).split()
    except OSError:
        return []


def is_daemon_of(pid: int, path: str) -> bool:
    """Tell whether ``pid`` is the daemon of the socket on ``path``: an mcpd that holds its lock."""
    return is_mcpd(pid) and _holds(pid, paths.lock_path(path))


def is_mcpd(pid: int) -> bool:
    """Tell whether a process is a daemon of this user, by its owner and its command line."""
    if HAVE_PROC:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                return False
        except OSError:
            return False
    words = _words(pid)
    return "mcpd" in words[:2] or words[1:3] == ["-m", "mcpd"]


def is_stopped(pid: int) -> bool:
    """Tell whether a process is stopped, so that it does nothing until somebody lets it go on."""
    return _state_and_age(pid)[0] in STOPPED


def age_of(pid: int) -> float | None:
    """Return for how many seconds a process has been there; ``None`` where that cannot be told."""
    return _state_and_age(pid)[1]


def _holds(pid: int, lock: str) -> bool:
    """Tell whether a process has the file ``lock`` open and locked.

    Source: proc(5), ``/proc/PID/fdinfo``. Elsewhere nobody tells, and it counts as true.
    """
    if not HAVE_PROC:
        return True
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_is_lock(f"/proc/{pid}", number, lock) for number in numbers)


def _is_lock(process: str, number: str, lock: str) -> bool:
    try:
        target = os.readlink(f"{process}/fd/{number}")
        if target not in (real := os.path.realpath(lock), f"{real} (deleted)"):
            return False
        with open(f"{process}/fdinfo/{number}", encoding="ascii", errors="replace") as file:
            return any(line.startswith("lock:") and "FLOCK" in line for line in file)
    except OSError:
        return False


def _state_and_age(pid: int) -> tuple[str, float | None]:
    if not HAVE_PROC:
        return _by_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return "", None
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0].decode(), time.clock_gettime(time.CLOCK_BOOTTIME) - started


def _words(pid: int) -> list[str]:
    """Return the words of a command line, programs without their directories."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        words = [] if HAVE_PROC else next(_ps("command=", pid), "").split()
    return [*map(os.path.basename, words[:2]), *words[2:]]


def _by_ps(pid: int) -> tuple[str, float | None]:
    words = next(_ps("state=,etime=", pid), "").split()
    if len(words) != 2:
        return "", None
    days, _, clock = words[1].rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return words[0][:1], int(days or 0) * 86400.0 + seconds


def _ps(columns: str, pid: int) -> Iterator[str]:
    import subprocess

    argv = ["ps", "-o", columns, "-U", str(os.geteuid()), "-p", str(pid)]
    yield from subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
