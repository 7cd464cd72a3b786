"""Connecting to the daemon's socket, after checking that it is this user's."""

from __future__ import annotations

import os
import socket
import stat
import time

from mcpd import daemon_process
from mcpd.daemon_start import deadline
from mcpd.errors import DaemonUnavailable

CONNECT_TIMEOUT_S = deadline.ANSWER_TIMEOUT_S
START_TIMEOUT_S = 20.0
"""For a daemon that is started, from the first try to connect until it listens."""

POLL_S = 0.01


def connect(path: str, timeout: float | None = CONNECT_TIMEOUT_S) -> socket.socket:
    """Return a connection to the daemon that listens on ``path``, with ``timeout`` seconds set.

    Checks the directory and the owner of the listener before anything is sent: another user may
    have created a predictable path first. Raises ``DaemonUnavailable`` with ``details["why"]``:
    ``absent``, ``refused``, ``not_ours``, ``exposed``, ``forbidden``, ``unresponsive`` or
    ``unusable``.
    """
    check_directory(path, may_tighten=False)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _connect(connection, path, timeout)
        uid = daemon_process.peer_credentials(connection)[1]
        if uid != os.geteuid():
            from mcpd.daemon_start.unavailable import not_ours

            raise not_ours(path, uid)
    except OSError as error:
        connection.close()
        from mcpd.daemon_start.unavailable import cannot_connect

        raise cannot_connect(path, error, CONNECT_TIMEOUT_S) from None
    except DaemonUnavailable:
        connection.close()
        raise
    return connection


def can_start(error: DaemonUnavailable) -> bool:
    """Tell whether starting a daemon can help against ``error``."""
    return error.details["why"] in ("absent", "refused", "no_socket", "exposed")


def check_directory(path: str, *, may_tighten: bool) -> None:
    """Raise ``DaemonUnavailable`` if the socket's directory is a link or open to other users.

    ``may_tighten``: a daemon is about to start, which makes its directory 0700 or reports why
    it cannot; an open one is then no error here.
    """
    directory = os.path.dirname(path)
    try:
        found = os.lstat(directory)
    except OSError as error:
        from mcpd.daemon_start.unavailable import cannot_connect

        raise cannot_connect(path, error, CONNECT_TIMEOUT_S) from None
    if stat.S_ISLNK(found.st_mode):
        message = f"{directory} is a link, and the socket's directory must not be one"
        raise DaemonUnavailable(message, hint=f"rm {directory}", why="exposed", path=path)
    if found.st_uid not in (os.geteuid(), 0):
        from mcpd.daemon_start.unavailable import not_ours

        raise not_ours(directory, found.st_uid)
    is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    if is_open and not (may_tighten and found.st_uid == os.geteuid()):
        message = f"others can write in {directory} (mode {stat.S_IMODE(found.st_mode):04o})"
        raise DaemonUnavailable(message, hint=f"chmod go-w {directory}", why="exposed", path=path)


def _connect(connection: socket.socket, path: str, timeout: float | None) -> None:
    """Connect within ``timeout`` seconds, also while the listener's backlog is full."""
    ends_at = None if timeout is None else time.monotonic() + timeout
    connection.settimeout(timeout)
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:  # a full backlog, which the kernel does not wait for
            if ends_at is not None and time.monotonic() >= ends_at:
                raise
            time.sleep(POLL_S)
