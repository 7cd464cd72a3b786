"""The daemon's place in the file system: looked after now and then, given up when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from mcpd.errors import McpdError, PathRefused
from mcpd.service import bind, privatedir
from mcpd.service.lock import DaemonLock

LOOK_S = 60.0
"""Between two looks at the socket and the lock."""


class SocketKeeper:
    """The socket's file and the lock.

    A daemon whose files have vanished is out of reach, and the next client would start another:
    it makes them anew, or ends when somebody else has taken the place. Nothing is made in a
    directory in which no daemon would start; the next look may find a safe one.
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
        """``replace`` takes a new listening socket; ``lost`` hears that another daemon is.

        ``refused`` gets the reason, once, why the directory is not used.
        ``is_lent``: the socket is a service manager's, and is neither made anew nor removed.
        """
        self._path = path
        self._lock = lock
        self._identity = identity
        self._is_lent = is_lent
        self._replace = replace
        self._lost = lost
        self._refused = refused
        self.trouble: PathRefused | None = None
        """Why the directory was not used at the last look; ``None`` where it can be."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from time to time."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look_again)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def remove_socket(self) -> None:
        """Take the socket's file away, if it is still ours."""
        if not self._is_lent:
            with contextlib.suppress(OSError):
                bind.remove_socket(self._path, self._identity)

    def look(self) -> None:
        """See to it that we can be found, and that nothing that cleans up takes our files."""
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

    def _look_again(self) -> None:
        self.start()
        self.look()
