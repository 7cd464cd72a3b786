"""Accepting on the Unix socket: who may come in, and how many."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable

from mcpd import tasks
from mcpd.core.facts import Failure
from mcpd.core.mcp import codes
from mcpd.core.wire import envelope
from mcpd.listeners.connection import Connection
from mcpd.listeners.peer import Peer, credentials, is_allowed

AT_ONCE = 64
"""Connections accepted in one turn of the loop."""

PAUSE_S = 0.5
"""How long nobody is accepted when descriptors have run out."""

SAY_EVERY_S = 5.0
"""How often at most the same reason is told: whoever is turned away may come back at once."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class UnixListener:
    """Accepts until it is closed.

    Invariant: nothing is read from a connection before the kernel has said whose it is, and no
    connection takes one of the descriptors that the daemon keeps for itself.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        most: int,
        usable_fds: Callable[[], int],
        connect: Callable[[Peer], Connection],
        refused: Callable[[str], None],
    ) -> None:
        """``connect`` makes what serves a peer; ``refused`` hears why somebody was not let in.

        ``usable_fds`` tells below which number connections may get descriptors.
        """
        self._socket = listener
        self._most = most
        self._usable_fds = usable_fds
        self._connect = connect
        self._refused = refused
        self._pause: asyncio.TimerHandle | None = None
        self._said = ""
        self._said_at = 0.0
        self._is_open = False
        self._group = tasks.Group()
        self.count = 0
        """Connections that are open; the owner of each lowers it when it has ended."""

    def start(self) -> None:
        """Begin to accept, on the running loop."""
        self._is_open = True
        self._listen()

    def replace(self, listener: socket.socket) -> None:
        """Go on with another socket, where the file of the old one has vanished."""
        was_open = self._is_open
        self.stop()
        self._socket.close()
        self._socket = listener
        if was_open:
            self.start()

    def stop(self) -> None:
        """Accept nobody more; the socket stays."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        elif self._is_open:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._is_open = False

    async def close(self) -> None:
        """Stop, and close the socket."""
        self.stop()
        await self._group.close()
        self._socket.close()

    def _listen(self) -> None:
        self._pause = None
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._rest(error)
                return
            self._admit(accepted)

    def _rest(self, error: OSError) -> None:
        """Wait a little: the loop would come back at once, for as long as somebody waits."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        self._pause = loop.call_later(PAUSE_S, self._listen)
        self._say(f"nobody can be let in just now: {error.strerror}")

    def _admit(self, accepted: socket.socket) -> None:
        try:
            peer = credentials(accepted)
        except OSError:
            accepted.close()
            return
        if not is_allowed(peer):
            accepted.close()
            self._say(f"user {peer.uid} (pid {peer.pid}) is not let in")
            return
        if self.count >= self._most:
            self._turn_away(accepted, f"{self._most} connections are open: all there may be")
            return
        if accepted.fileno() >= self._usable_fds():  # the lowest free
            self._turn_away(accepted, "the daemon has no descriptors left for more connections")
            return
        accepted.setblocking(False)
        self.count += 1
        connection = self._connect(peer)
        self._group.spawn(self._serve(accepted, connection), name="unix.accept")

    def _turn_away(self, accepted: socket.socket, reason: str) -> None:
        """Close a connection of somebody who may know why."""
        failure = Failure("rate_limited", reason, None, True, "mcpctl doctor shows the limits")
        with accepted, contextlib.suppress(OSError):
            line = envelope.error(b"null", codes.error_object(failure))
            accepted.send(line, socket.MSG_DONTWAIT)
        self._say(reason)

    def _say(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        if reason != self._said or now >= self._said_at + SAY_EVERY_S:
            self._said, self._said_at = reason, now
            self._refused(reason)

    async def _serve(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            accepted.close()
            connection.abort(f"the connection broke: {error}")
