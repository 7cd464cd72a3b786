"""Accepts connections on the Unix socket: which users, and how many."""

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

AT_ONCE = 16
"""Connections accepted in one iteration of the loop."""

RESERVE = 16
"""Connections over the limit that are accepted for control requests alone."""

FIRST_REQUEST_S = 5.0
"""Seconds in which a connection of the reserve must send something."""

PAUSE_S = 0.5
"""Seconds without accepting after descriptors have run out."""

REPORT_EVERY_S = 5.0
"""Seconds between two reports of the same reason: a client that is refused may retry at once."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class UnixListener:
    """Accepts connections until it is closed.

    Over the limit, a reserve of connections is accepted for control requests alone, so that a
    person can still inspect and stop the daemon. When another connection ends, the oldest of the
    reserve may become a session.

    Invariant: nothing is read from a connection before the kernel has named its user, and no
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
        """Prepare to accept ``most`` connections at a time on ``listener``.

        ``usable_fds`` returns two bounds: descriptors of connections, and those of the reserve, are
        below them. ``connect`` returns the connection for a peer, which is in the reserve or not.
        ``admitted`` is called with one that leaves the reserve, ``refused`` with the reason why a
        client was refused. ``is_idle`` returns whether no answer is due on a connection.
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
        """Connections for control requests alone, the oldest first."""
        self._pause: asyncio.TimerHandle | None = None
        self._reported = ""
        self._reported_at = 0.0
        self._is_open = False
        self._group = tasks.Group()

    @property
    def count(self) -> int:
        """Return how many connections are open."""
        return len(self._open) + len(self._reserve)

    def ended(self, connection: Connection) -> None:
        """Remove a connection that has ended; the oldest of the reserve takes its place."""
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
        """Start to accept, on the running loop."""
        self._is_open = True
        self._listen()

    def replace(self, listener: socket.socket) -> None:
        """Continue with another socket, because the file of the old one was removed."""
        was_open = self._is_open
        self.stop()
        self._socket.close()
        self._socket = listener
        if was_open:
            self.start()

    def stop(self) -> None:
        """Stop accepting, and keep the socket."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        elif self._is_open:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._is_open = False

    async def close(self) -> None:
        """Stop accepting, and close the socket."""
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
                self._pause_accepting(error)
                return
            self._admit(accepted)

    def _pause_accepting(self, error: OSError) -> None:
        """Accept nothing for ``PAUSE_S``: the loop would call again at once while clients wait."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        self._pause = loop.call_later(PAUSE_S, self._listen)
        self.report_refusal(f"nobody can be let in just now: {error.strerror}")

    def _admit(self, accepted: socket.socket) -> None:
        try:
            peer = credentials(accepted)
        except OSError:
            accepted.close()
            return
        if not is_allowed(peer):
            accepted.close()
            self.report_refusal(f"user {peer.uid} (pid {peer.pid}) is not let in")
            return
        number, (usable, reserved) = accepted.fileno(), self._usable_fds()  # the lowest free one
        reason = None
        if len(self._open) >= self._most:
            reason = f"{self._most} connections are open: all there may be"
        elif number >= usable:
            reason = "the daemon has no descriptors left for more connections"
        has_place = len(self._reserve) < RESERVE and number < reserved
        if reason is not None and not has_place and not self._make_room_in_reserve():
            self._refuse(accepted, reason)
            return
        accepted.setblocking(False)
        connection = self._connect(peer, reason is not None)
        if reason is None:
            self._open.add(connection)
        else:
            self.report_refusal(f"{reason}; control requests alone are still served")
            self._reserve[connection] = None
            loop = asyncio.get_running_loop()
            loop.call_later(FIRST_REQUEST_S, self._close_silent, connection)
        self._group.spawn(self._serve(accepted, connection), name="unix.accept")

    def _make_room_in_reserve(self) -> bool:
        """Close a connection of the reserve that was served, if there is one; return whether."""
        for each in self._reserve:
            if each.has_received and self._is_idle(each):
                each.write(_refusal("others need this connection, which is owed nothing"))
                each.close("it was in the reserve, and others needed its place")
                return True
        return False

    def _close_silent(self, connection: Connection) -> None:
        if connection in self._reserve and not connection.has_received:
            connection.close(f"it was in the reserve, and sent nothing for {FIRST_REQUEST_S:g} s")

    def _refuse(self, accepted: socket.socket, reason: str) -> None:
        """Send the reason to a client of an allowed user, and close its connection."""
        with accepted, contextlib.suppress(OSError):
            accepted.send(_refusal(reason), socket.MSG_DONTWAIT)
        self.report_refusal(reason)

    def report_refusal(self, reason: str) -> None:
        """Report why a client was refused; the same reason once in ``REPORT_EVERY_S``."""
        now = asyncio.get_running_loop().time()
        if reason != self._reported or now >= self._reported_at + REPORT_EVERY_S:
            self._reported, self._reported_at = reason, now
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
