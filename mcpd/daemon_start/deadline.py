"""How long a client waits for the first answer of a daemon."""

from __future__ import annotations

import time

from mcpd import daemon_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from mcpd.errors import DaemonUnavailable

ANSWER_TIMEOUT_S = 1.7
"""For a daemon that has loaded. It answers in milliseconds even when busy; with the start of
``mcpctl``, a person reads within two seconds that something is wrong."""

LOAD_TIMEOUT_S = 20.0
"""For a daemon that listens already and still loads its modules, on a busy machine."""

CHECK_S = 0.2
"""Between two checks whether a daemon is still loading."""

MANAGERS = ("systemd", "launchd", "init")
"""Programs that create a socket and start a daemon for it."""


class ResponseDeadline:
    """The deadline for the first answer on a connection, the same for all clients.

    ``ANSWER_TIMEOUT_S`` in general, ``LOAD_TIMEOUT_S`` as long as the daemon is young, has not
    written to its lock that it has loaded, and is not stopped. From when it has, it gets
    ``ANSWER_TIMEOUT_S`` again.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._began = time.monotonic()
        self._loading_at = float("-inf")  # monotonic; when it was last seen loading
        self._path = daemon_process.peer_path(connection)
        self._peer, _ = daemon_process.peer_credentials(connection)
        self.pid = daemon_process.daemon_pid(self._path, self._peer)

    def remaining(self) -> float:
        """Return the seconds to wait before the next check, 0 once the deadline has passed."""
        now = time.monotonic()
        waited = now - self._began
        if waited < ANSWER_TIMEOUT_S:
            return ANSWER_TIMEOUT_S - waited
        if waited < LOAD_TIMEOUT_S and self._may_be_loading():
            self._loading_at = now
            return CHECK_S
        if self.pid is None or not daemon_process.has_loaded(self._path, self.pid):
            return 0.0
        return max(0.0, self._loading_at + ANSWER_TIMEOUT_S - now)

    def error(self) -> DaemonUnavailable:
        """Return the error to raise once the deadline has passed."""
        from mcpd.daemon_start.unavailable import unresponsive

        return unresponsive(self._path, self.pid, time.monotonic() - self._began)

    def _may_be_loading(self) -> bool:
        self.pid = daemon_process.daemon_pid(self._path, self._peer)
        if self.pid is None or not daemon_process.is_mcpd(self.pid):
            words = [] if self._peer is None else daemon_process.command_words(self._peer)
            return bool(words) and words[0] in MANAGERS
        age = daemon_process.age(self.pid)
        has_loaded = daemon_process.has_loaded(self._path, self.pid)
        is_young = age is not None and age < LOAD_TIMEOUT_S and not has_loaded
        return is_young and not daemon_process.is_stopped(self.pid)
