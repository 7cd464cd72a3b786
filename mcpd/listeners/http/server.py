"""The addresses of the front: opened and closed as the configuration says."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from uvicorn.config import Config
from uvicorn.server import ServerState

from mcpd.config.addresses import Address
from mcpd.listeners.http.application import Application
from mcpd.listeners.http.protocol import Connection

BACKLOG: Final = 1024
KEEP_ALIVE_S: Final = 75
"""How long a connection without a request is kept."""


class Trouble(NamedTuple):
    """Why an address is not open."""

    address: Address
    reason: str
    is_in_use: bool


class UnixSockets(Protocol):
    """Makes the socket files of addresses, which only their owner reaches."""

    def open(self, path: str) -> socket.socket:
        """Return a socket that is bound to a path; raise ``OSError`` where that cannot be."""

    def remove(self, path: str) -> None:
        """Remove the file at a path if it is still the one that was made; before it is closed."""


class HttpServer:
    """Listens on the addresses that are configured; a change touches no other address."""

    def __init__(
        self,
        application: Application,
        *,
        request_timeout: Callable[[], float],
        most_connections: int,
        usable_fds: Callable[[], int],
        unix: UnixSockets,
    ) -> None:
        """``usable_fds`` returns a bound below which descriptors of connections are."""
        self._config = Config(
            application,
            loop="none",
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            access_log=False,
            log_config=None,
            log_level="error",  # else it has a line for each client that sends no HTTP
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._config.load()
        self._state = ServerState()
        self._request_timeout = request_timeout
        self._most_connections = most_connections
        self._usable_fds = usable_fds
        self._unix = unix
        self._open: dict[Address, list[asyncio.Server]] = {}
        self._connections: set[Connection] = set()
        self._quiet: asyncio.Event | None = None
        self.troubles: list[Trouble] = []
        """The addresses that are configured and not open."""

    @property
    def addresses(self) -> list[Address]:
        """Return the addresses that are open."""
        return list(self._open)

    async def apply(self, wanted: Iterable[Address]) -> None:
        """Open the addresses that are wanted and not open, and close those that are not wanted."""
        wanted = list(dict.fromkeys(wanted))
        for address in [each for each in self._open if each not in wanted]:
            await self._close(address)
        self.troubles = []
        for address in wanted:
            if address not in self._open:
                await self._listen(address)

    async def close(self) -> None:
        """Accept nothing more, and end the connections that have no request."""
        for address in list(self._open):
            await self._close(address)
        for connection in list(self._connections):
            connection.shutdown()

    async def wait_quiet(self, timeout: float) -> None:
        """Wait, ``timeout`` seconds at most, until every connection has ended."""
        if self._connections:
            self._quiet = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), timeout)

    def abort(self) -> None:
        """Cut every connection."""
        for connection in list(self._connections):
            connection.transport.abort()

    async def _listen(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        servers: list[asyncio.Server] = []
        try:
            for opened in self._sockets(address):
                servers.append(
                    await loop.create_server(self._protocol, sock=opened, backlog=BACKLOG)
                )
        except OSError as error:
            for server in servers:
                server.close()
            is_in_use = error.errno == errno.EADDRINUSE
            reason = error.strerror or str(error)
            self.troubles.append(Trouble(address, reason, is_in_use))
        else:
            self._open[address] = servers

    def _sockets(self, address: Address) -> list[socket.socket]:
        if address.path is not None:
            return [self._unix.open(address.path)]
        hosts = ["127.0.0.1", "::1"] if address.host == "localhost" else [address.host or ""]
        found: list[socket.socket] = []
        try:
            for host in hosts:
                with contextlib.suppress(_NoFamily):
                    found.append(_bound(host, address.port, is_optional=len(hosts) > 1))
        except OSError:
            for opened in found:
                opened.close()
            raise
        return found

    async def _close(self, address: Address) -> None:
        if address.path is not None:
            self._unix.remove(address.path)
        for server in self._open.pop(address):
            server.close()

    def _protocol(self) -> Connection:
        return Connection(
            self._config, self._state, self._request_timeout, self._admit, self._closed
        )

    def _admit(self, connection: Connection) -> bool:
        opened: socket.socket = connection.transport.get_extra_info("socket")
        if len(self._connections) >= self._most_connections or (
            opened.fileno() >= self._usable_fds()
        ):
            return False
        self._connections.add(connection)
        return True

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._quiet is not None and not self._connections:
            self._quiet.set()


class _NoFamily(Exception):
    """This machine has no IPv6."""


def _bound(host: str, port: int, *, is_optional: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        opened = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        if family is socket.AF_INET6 and is_optional:
            raise _NoFamily from None
        raise
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind((host, port))
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        if family is socket.AF_INET6 and is_optional and error.errno == errno.EADDRNOTAVAIL:
            raise _NoFamily from None
        raise
    return opened
