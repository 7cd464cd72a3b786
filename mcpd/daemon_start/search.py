"""Waiting for a daemon, and starting one where none listens.

Clients start a daemon under a lock of their own (``SOCKET.start``), so that twenty at once start
one. The holder spawns ``mcpd`` and waits for the socket; the others wait for the socket too, and
one of them takes over if the holder gives up. An ``mcpd`` that exits with 75 found another daemon,
which may be starting or shutting down: the holder keeps waiting and tries again from time to time.
"""

from __future__ import annotations

import os
import time

from mcpd import paths
from mcpd.daemon_start import private, unavailable
from mcpd.daemon_start.connection import (
    CONNECT_TIMEOUT_S,
    POLL_S,
    START_TIMEOUT_S,
    can_start,
    check_directory,
    connect,
)
from mcpd.daemon_start.spawn import Start
from mcpd.errors import DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")

RECONNECT_PAUSE_S = 0.1
"""After a daemon that hangs up before it has answered."""


class Search:
    """Looks for a daemon in steps that do not block, and starts one if this client is to.

    Call ``poll`` until it returns a connection. ``config``, ``variables`` and ``timeout`` are as
    for ``reach.reach``. ``close`` lets other clients start a daemon.
    """

    def __init__(
        self,
        path: str,
        *,
        config: str | None = None,
        variables: Mapping[str, str] | None = None,
        timeout: float = START_TIMEOUT_S,
    ) -> None:
        self._path = path
        self._config = config
        self._variables = variables
        self._timeout = timeout
        self._deadline: float | None = None  # monotonic; set by the first poll
        self._start: Start | None = None
        self.is_starter = False
        """Whether this client holds the lock, and so starts the daemon."""
        private.make_directory(os.path.dirname(path), paths.SOCKET_ELSEWHERE)
        check_directory(path, may_tighten=True)
        self._lock = private.open_file(
            paths.start_lock_path(path), os.O_RDWR, paths.SOCKET_ELSEWHERE
        )

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take_lock(self) -> bool:
        """Try to take the lock, so that no other client starts a daemon; return whether it is held.

        It is not while another client is starting one.
        """
        self.is_starter = self.is_starter or _try_lock(self._lock)
        return self.is_starter

    def poll(self, timeout: float = 0.0) -> socket.socket | None:
        """Return a connection, or ``None`` if there is none yet; raise as ``reach`` does.

        ``timeout``, in seconds, is for a daemon that listens and accepts no connection.
        """
        # The lock first: its last holder may just have succeeded.
        is_starter = self.take_lock()
        if self._deadline is None:
            self._deadline = time.monotonic() + self._timeout
        try:
            return connect(self._path, timeout)
        except DaemonUnavailable as error:
            if not can_start(error):
                raise
            last = error
        if is_starter:
            self._start = self._start or Start(self._path, self._config, self._variables)
            self._start.poll()
        if time.monotonic() > self._deadline:
            log = "" if self._start is None else self._start.log_excerpt()
            raise unavailable.start_timeout(self._path, self._timeout, last, log)
        return None

    def reach(self, greet: Callable[[socket.socket], T]) -> T:
        """Wait for a connection and return ``greet(connection)``.

        A daemon listens before it has read its configuration, and hangs up if that is unusable:
        after ``gone``, the next connection is waited for, and the error raised in the end is that
        of the start.
        """
        while True:
            while (connection := self.poll(CONNECT_TIMEOUT_S)) is None:
                time.sleep(POLL_S)
            try:
                return greet(connection)
            except DaemonUnavailable as error:
                is_late = self._deadline is not None and time.monotonic() > self._deadline
                if error.details["why"] != "gone" or is_late:
                    raise
            time.sleep(RECONNECT_PAUSE_S)

    def close(self) -> None:
        """Release the lock. A daemon that was started keeps running."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._start is not None:
            self._start.close()
            self._start = None


def _try_lock(fd: int) -> bool:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
