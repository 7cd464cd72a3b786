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

RESERVE = 16
"""Connections over the limit that are let in for control requests alone."""

FIRST_REQUEST_S = 5.0
"""How long one of these may take to send anything."""

PAUSE_S = 0.5
"""How long nobody is accepted when descriptors have run out."""

SAY_EVERY_S = 5.0
"""How often at most the same reason is told: whoever is turned away may come back at once."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class UnixListener:
    """Accepts until it is closed.

    Over the limit a few are let in that can be no sessions, so that a person can still see and stop
    the daemon. The oldest of them becomes like the others when one of those has ended.

    Invariant: nothing is read from a connection before the kernel has said whose it is, and no
    connection takes one of the descriptors that the daemon keeps for itself.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        most: int,
        usable_fds: Callable[[], tuple[int, int]],
        connect: Callable[[Peer, bool], Connection],
        admitted: Callable[[Connection], None],
        is_idle: Callable[[Connection], bool],
        refused: Callable[[str], None],
    ) -> None:
        """Prepare.

        ``usable_fds`` tells below which number connections may get descriptors, and those of the
        reserve. ``connect`` makes what serves a peer, in the reserve or not; ``admitted`` gets one
        that has left the reserve; ``is_idle`` tells whether one is owed nothing; ``refused`` gets
        the reason why somebody was not let in.
        """
        self._socket = listener
        self._most = most
        self._usable_fds = usable_fds
        self._connect = connect
        self._admitted = admitted
        self._is_idle = is_idle
        self._refused = refused
        self._open: set[Connection] = set()
        self._reserve: dict[Connection, None] = {}
        """Those that are let in for control requests alone, the oldest first."""
        self._pause: asyncio.TimerHandle | None = None
        self._said = ""
        self._said_at = 0.0
        self._is_open = False
        self._group = tasks.Group()

    @property
    def count(self) -> int:
        """Return how many connections are open."""
        return len(self._open) + len(self._reserve)

    def ended(self, connection: Connection) -> None:
        """Count a connection no more; the oldest of the reserve takes its place."""
        self._reserve.pop(connection, None)
        if connection not in self._open:
            return
        self._open.remove(connection)
        if self._reserve:
            oldest = next(iter(self._reserve))
            del self._reserve[oldest]
            self._open.add(oldest)
            self._admitted(oldest)

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
        self.say(f"nobody can be let in just now: {error.strerror}")

    def _admit(self, accepted: socket.socket) -> None:
        try:
            peer = credentials(accepted)
        except OSError:
            accepted.close()
            return
        if not is_allowed(peer):
            accepted.close()
            self.say(f"user {peer.uid} (pid {peer.pid}) is not let in")
            return
        number, (usable, reserved) = accepted.fileno(), self._usable_fds()  # the lowest free
        reason = None
        if len(self._open) >= self._most:
            reason = f"{self._most} connections are open: all there may be"
        elif number >= usable:
            reason = "the daemon has no descriptors left for more connections"
        has_place = len(self._reserve) < RESERVE and number < reserved
        if reason is not None and not has_place and not self._make_place():
            self._turn_away(accepted, reason)
            return
        accepted.setblocking(False)
        connection = self._connect(peer, reason is not None)
        if reason is None:
            self._open.add(connection)
        else:
            self.say(f"{reason}; control requests alone are still served")
            self._reserve[connection] = None
            loop = asyncio.get_running_loop()
            loop.call_later(FIRST_REQUEST_S, self._give_up, connection)
        self._group.spawn(self._serve(accepted, connection), name="unix.accept")

    def _make_place(self) -> bool:
        """End a connection of the reserve that has been served, if there is one."""
        for each in self._reserve:
            if each.has_heard and self._is_idle(each):
                each.write(_refusal("others need this connection, which is owed nothing"))
                each.close("it was in the reserve, and others needed its place")
                return True
        return False

    def _give_up(self, connection: Connection) -> None:
        if connection in self._reserve and not connection.has_heard:
            connection.close(f"it was in the reserve, and sent nothing for {FIRST_REQUEST_S:g} s")

    def _turn_away(self, accepted: socket.socket, reason: str) -> None:
        """Close a connection of somebody who may know why."""
        with accepted, contextlib.suppress(OSError):
            accepted.send(_refusal(reason), socket.MSG_DONTWAIT)
        self.say(reason)

    def say(self, reason: str) -> None:
        """Say why somebody was not let in, the same reason only now and then."""
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


def _refusal(reason: str) -> bytes:
    failure = Failure("rate_limited", reason, None, True, "mcpctl doctor shows the limits")
    return envelope.error(b"null", codes.error_object(failure))
