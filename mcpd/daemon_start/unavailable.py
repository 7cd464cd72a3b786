"""Why no daemon answers on a socket: an error for each case, with what to type next."""

from __future__ import annotations

import os
import stat

from mcpd import daemon_process, paths
from mcpd.errors import DaemonUnavailable


def absent(path: str) -> DaemonUnavailable:
    """Return the error for a socket that does not exist."""
    return DaemonUnavailable("no daemon runs", hint="mcpctl up", why="absent", path=path)


def not_ours(path: str, uid: int) -> DaemonUnavailable:
    """Return the error for a file or a listener of another user."""
    return DaemonUnavailable(f"not yours: {path} belongs to {uid}", why="not_ours", path=path)


def cannot_connect(path: str, error: OSError, timeout: float) -> DaemonUnavailable:
    """Return the error for a socket that cannot be examined or connected to."""
    if isinstance(error, FileNotFoundError):
        return absent(path)
    if isinstance(error, ConnectionRefusedError):
        if not _is_socket(path):
            return DaemonUnavailable(f"{path} is not a socket", why="unusable", path=path)
        message = "no daemon runs (its socket was left behind)"
        return DaemonUnavailable(message, hint="mcpctl up", why="refused", path=path)
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return unresponsive(path, daemon_process.daemon_pid(path, None), timeout)
    why = "forbidden" if isinstance(error, PermissionError) else "unusable"
    return DaemonUnavailable(f"{path}: {error.strerror}", why=why, path=path)


def unresponsive(path: str, pid: int | None, waited_s: float) -> DaemonUnavailable:
    """Return the error for a daemon that has not answered for ``waited_s`` seconds."""
    who = "" if pid is None else f", pid {pid}"
    is_stopped = pid is not None and daemon_process.is_stopped(pid)
    what = "it is stopped (SIGSTOP)" if is_stopped else f"no answer within {waited_s:.2g} s"
    first = f"to let it go on: kill -CONT {pid}; " if is_stopped else ""
    return DaemonUnavailable(
        f"the daemon is unresponsive{who}: {what}",
        hint=f"{first}to end it, with its servers: mcpctl down --force",
        why="unresponsive",
        pid=pid,
        path=path,
    )


def without_socket(path: str, error: DaemonUnavailable) -> DaemonUnavailable | None:
    """Return the error for a daemon that holds the lock and has no socket, if ``error`` hides one.

    Such a daemon keeps every other one from starting.
    """
    why = error.details["why"]
    pid = daemon_process.pid_in_lock(path) if why in ("absent", "refused") else None
    if pid is None or not daemon_process.is_daemon_of(pid, path):
        return None
    what = "is not there" if why == "absent" else "takes no connection"
    return DaemonUnavailable(
        f"mcpd, pid {pid}, holds the lock {paths.lock_path(path)}, but its socket {path} {what}",
        hint="wait a minute, it may recover by itself; otherwise: mcpctl down --force",
        why="no_socket",
        pid=pid,
        path=path,
    )


def start_timeout(
    path: str, timeout: float, last: DaemonUnavailable, log: str
) -> DaemonUnavailable:
    """Return the error for a daemon that did not listen within ``timeout`` seconds.

    ``last`` is the last failure to connect; ``log`` names the log of a daemon that was started,
    with its last lines, or is empty.
    """
    holder = without_socket(path, last)
    if holder is not None:  # the log says no more than that another daemon runs
        return holder
    message = f"no daemon could be reached on {path} within {timeout:g} s: {last.message}{log}"
    return DaemonUnavailable(message, why="start_timeout", path=path)


def cannot_start(what: str, error: OSError, elsewhere: str) -> DaemonUnavailable:
    """Return the error for a file or directory that a start needs and that cannot be used.

    ``what`` completes "cannot"; ``elsewhere`` is the option or variable that chooses another place.
    """
    message = f"cannot start mcpd: cannot {what}: {error.strerror}"
    hint = f"fix that, or choose another place: {elsewhere}"
    return DaemonUnavailable(message, hint=hint, why="start_failed", errno=error.errno)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except FileNotFoundError:  # removed since the attempt: report it as a socket
        return True
