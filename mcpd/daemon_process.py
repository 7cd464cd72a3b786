"""The process behind a socket: whether it is a daemon of this user, and in which state.

For clients, with the standard library alone. Nothing here signals or locks anything.
"""

from __future__ import annotations

import os
import socket
import sys
import time

from mcpd import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STOPPED = ("T", "t")
"""States of a process that a signal or a debugger has stopped."""

HAVE_PROC = sys.platform == "linux"


def peer_credentials(connection: socket.socket) -> tuple[int | None, int]:
    """Return pid and uid of the process that created the listener.

    The pid is ``None`` where the system does not report it.
    """
    if sys.platform == "darwin":
        found = connection.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED: struct xucred
        pid = int.from_bytes(connection.getsockopt(0, 2, 4), sys.byteorder)  # LOCAL_PEERPID
        return pid or None, int.from_bytes(found[4:8], sys.byteorder)
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid = (int.from_bytes(found[at : at + 4], sys.byteorder) for at in (0, 4))
    return pid or None, uid


def peer_path(connection: socket.socket) -> str:
    """Return the path of the socket that ``connection`` leads to, empty if it has none."""
    try:
        name = connection.getpeername()
    except OSError:  # hung up already
        return ""
    return name if isinstance(name, str) else ""


def daemon_pid(path: str, peer: int | None) -> int | None:
    """Return the pid of the daemon on ``path``; ``peer`` is the pid that created the listener.

    That is the daemon, or a service manager: then the daemon is the holder of the lock. Returns
    ``peer`` if no daemon is found.
    """
    if peer is not None and is_mcpd(peer):
        return peer
    holder = pid_in_lock(path)
    return holder if holder is not None and is_daemon_of(holder, path) else peer


def pid_in_lock(path: str) -> int | None:
    """Return the pid written in the lock of ``path``, which need not hold it any more."""
    words = _in_lock(path)
    return int(words[0]) if words and words[0].isdigit() and int(words[0]) > 1 else None


def has_loaded(path: str, pid: int) -> bool:
    """Tell whether the daemon has written to its lock that it answers requests."""
    return _in_lock(path)[:2] == [b"%d" % pid, b"ready"]


def _in_lock(path: str) -> list[bytes]:
    try:
        with open(paths.lock_path(path), "rb") as file:
            return file.read(64).split()
    except OSError:
        return []


def is_daemon_of(pid: int, path: str) -> bool:
    """Tell whether ``pid`` is an mcpd that holds the lock of the socket on ``path``."""
    return is_mcpd(pid) and _holds(pid, paths.lock_path(path))


def is_mcpd(pid: int) -> bool:
    """Tell whether a process is a daemon of this user, by its owner and its command line."""
    if HAVE_PROC:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                return False
        except OSError:
            return False
    words = command_words(pid)
    return "mcpd" in words[:2] or words[1:3] == ["-m", "mcpd"]


def is_stopped(pid: int) -> bool:
    """Tell whether a signal or a debugger has stopped a process."""
    return _state_and_age(pid)[0] in STOPPED


def age(pid: int) -> float | None:
    """Return how many seconds ago a process was started, ``None`` if that is not known."""
    return _state_and_age(pid)[1]


def start_time(pid: int) -> str | None:
    """Return when a process was started, as text that is compared and not read.

    It stays the same when the clock is set, and differs from that of another process with the same
    pid. Source: proc(5), ``starttime``. Returns ``None`` if it is not known.
    """
    if not HAVE_PROC:
        return " ".join(next(_ps("lstart=", pid), "").split()) or None
    fields = _stat_fields(pid)
    return fields[19].decode() if fields else None


def _holds(pid: int, lock: str) -> bool:
    """Tell whether a process has the file ``lock`` open and locked.

    Source: proc(5), ``/proc/PID/fdinfo``. Returns true on systems without it.
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
    fields = _stat_fields(pid)
    if not fields:
        return "", None
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0].decode(), time.clock_gettime(time.CLOCK_BOOTTIME) - started


def _stat_fields(pid: int) -> list[bytes]:
    """Return what ``/proc/PID/stat`` has after the command, empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def command_words(pid: int) -> list[str]:
    """Return the words of a process's command line, the first two without their directories."""
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
