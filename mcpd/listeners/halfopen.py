"""Half-open connections: detects when a client that has ended its input stops reading too."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import sys
from collections.abc import Callable

from mcpd.ids import SessionId

POLL_S = 0.2
"""Seconds between two checks on systems without epoll."""


class HalfOpen:
    """Watches connections whose client has ended its input.

    An event loop that does not read from a connection does not report its end. An epoll that is
    registered for no events does: EPOLLHUP is always reported (epoll_ctl(2)), and means that the
    other side has closed both directions.
    """

    def __init__(self, on_ended: Callable[[SessionId], None]) -> None:
        """``on_ended`` takes the session of a client that ends its input and still reads."""
        self.on_ended = on_ended
        self._watched: dict[int, tuple[socket.socket, Callable[[], None]]] = {}
        self._epoll = select.epoll() if sys.platform == "linux" else None
        self._timer: asyncio.TimerHandle | None = None
        if self._epoll is not None:
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._check)

    def watch(self, connection: socket.socket, hung_up: Callable[[], None]) -> None:
        """Call ``hung_up`` once, when the client closes the connection."""
        fd = connection.fileno()
        self._watched[fd] = (connection, hung_up)
        if sys.platform == "linux" and self._epoll is not None:
            self._epoll.register(fd, 0)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._check)

    def forget(self, connection: socket.socket) -> None:
        """Stop watching a connection; to be called before its descriptor is closed."""
        for fd in [fd for fd, (watched, _) in self._watched.items() if watched is connection]:
            del self._watched[fd]
            if self._epoll is not None:
                with contextlib.suppress(OSError):
                    self._epoll.unregister(fd)

    def close(self) -> None:
        """Stop watching all connections."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _check(self) -> None:
        self._timer = None
        if self._epoll is not None:
            gone = [fd for fd, _ in self._epoll.poll(0)]
        else:
            gone = [fd for fd, (each, _) in self._watched.items() if has_hung_up(each)]
        for fd in gone:
            if fd in self._watched:
                connection, hung_up = self._watched[fd]
                self.forget(connection)
                hung_up()
        if self._epoll is None and self._watched:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._check)


def has_hung_up(connection: socket.socket) -> bool:
    """Tell whether a client that has ended its input has closed the connection altogether."""
    if sys.platform == "linux":
        poll = select.poll()
        poll.register(connection.fileno(), 0)
        return bool(poll.poll(0))
    try:
        connection.getpeername()
    except OSError:
        return True
    return False
