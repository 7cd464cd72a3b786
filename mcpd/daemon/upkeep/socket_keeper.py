"""The daemon's socket file and lock: checked regularly, replaced when they have vanished."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from mcpd.errors import McpdError, PathRefused
from mcpd.service import bind, privatedir
from mcpd.service.lock import DaemonLock

CHECK_EVERY_S = 60.0
"""Seconds between two checks of the socket and the lock."""


class SocketKeeper:
    """Keeps the daemon reachable.

    Clients cannot find a daemon whose files have vanished, and would start another. The files are
    created again, or the daemon ends if another one has taken its place. Nothing is created in a
    directory that is not safe enough for a daemon to start there.
    """

    def __init__(
        self,
        path: str,
        lock: DaemonLock,
        identity: bind.Identity | None,
        *,
        is_lent: bool = False,
        replace: Callable[[socket.socket], None],
        lost: Callable[[str], None],
        refused: Callable[[PathRefused], None] = lambda _: None,
    ) -> None:
        """``replace`` takes a new listening socket.

        ``lost`` is called with the reason when another daemon has taken the place, ``refused``,
        once, when the directory is not safe. ``is_lent``: the socket belongs to a service manager,
        and is neither created again nor removed.
        """
        self._path = path
        self._lock = lock
        self._identity = identity
        self._is_lent = is_lent
        self._replace = replace
        self._lost = lost
        self._refused = refused
        self.trouble: PathRefused | None = None
        """Why the directory could not be used at the last check, ``None`` if it could."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check regularly."""
        self._timer = asyncio.get_running_loop().call_later(CHECK_EVERY_S, self._check_again)

    def close(self) -> None:
        """Check no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def remove_socket(self) -> None:
        """Remove the socket's file, if it is still ours."""
        if not self._is_lent:
            with contextlib.suppress(OSError):
                bind.remove_socket(self._path, self._identity)

    def check(self) -> None:
        """Create what has vanished, and touch what is there so that no cleaner removes it."""
        try:
            privatedir.prepare(self._path)
        except PathRefused as refusal:
            if self.trouble is None or self.trouble.message != refusal.message:
                self._refused(refusal)
            self.trouble = refusal
            return
        self.trouble = None
        try:
            if self._lock.still_ours():
                self._lock.touch()
            else:
                self._lock.renew()
            if self._is_lent:
                with contextlib.suppress(OSError):
                    bind.touch(self._path)
            elif bind.still_ours(self._path, self._identity):
                bind.touch(self._path)
            else:
                listener = bind.bind_socket(self._path, self._lock)
                self._identity = bind.identity_of(self._path)
                self._replace(listener)
        except (McpdError, OSError) as error:
            self._lost(f"its place at {self._path} is lost: {error}")

    def _check_again(self) -> None:
        self.start()
        self.check()
