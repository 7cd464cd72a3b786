"""HTTP requests to one server, with aiohttp.

Its errors become ``Unreachable``, which says whether the server may have read the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from mcpd import __version__, tls
from mcpd.config.remote import RemoteConfig
from mcpd.config.urls import public_part
from mcpd.upstreams.http.bodies import ContentType, Decompressor, UnknownEncoding
from mcpd.upstreams.http.failures import Unreachable
from mcpd.upstreams.http.proxies import proxy_for

KEEP_IDLE_S: Final = 30.0
"""How long a connection is kept that nobody uses. Networks forget quiet ones, some after a minute,
and tell nobody."""

UNACKNOWLEDGED_S: Final = 15.0
"""After which a connection is lost whose other end does not acknowledge what was sent."""

PROBE_AFTER_S: Final = 30
"""After which the system asks whether the other end of a quiet connection is there."""

SLEPT_S: Final = 1.0
"""After a sleep of the machine of this length, connections that nobody used are not used again."""

READ_BUFFER_BYTES: Final = 256 * 1024
MOST_REDIRECTS: Final = 5
HEAD_LINE_BYTES: Final = 64 * 1024

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_KEEPING: Final = (307, 308)
"""Redirects that keep method and body."""

_WITH_SLEEP: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_PORTS: Final = {"http": 80, "https": 443}

_sending: ContextVar[Callable[[bool], None] | None] = ContextVar("sending", default=None)


class Response:
    """The response to one request, whose body has not been read."""

    def __init__(self, inner: aiohttp.ClientResponse) -> None:
        self._inner = inner
        self.status = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self.challenge = ", ".join(inner.headers.getall("WWW-Authenticate", ()))
        """How the server wants to be authorised: all headers that say so."""
        self.type = ContentType(inner.headers.get("Content-Type", ""))

    @property
    def length(self) -> int | None:
        """The length of the body in bytes, compressed or not, if the server says it."""
        return self._inner.content_length

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body, decompressed; raise ``Unreachable`` where it breaks off."""
        try:
            decompressor = Decompressor(self.headers.get("Content-Encoding", ""))
            async for data in self._inner.content.iter_any():
                for piece in decompressor.feed(data):
                    yield piece
        except (aiohttp.ClientError, OSError, zlib.error, asyncio.IncompleteReadError) as error:
            raise Unreachable("http", _broken(error), is_sent=True) from error
        except UnknownEncoding as error:
            why = f"its answer is compressed as {error}, which was not asked for"
            raise Unreachable("http", why, is_sent=True) from error

    async def beginning(self, most: int) -> bytes:
        """Return the first bytes of the body, and read no more; empty where it breaks off."""
        found = bytearray()
        with contextlib.suppress(Unreachable):
            async for piece in self.pieces():
                found += piece
                if len(found) >= most:
                    break
        return bytes(found[:most])

    def close(self) -> None:
        """Close the connection, unless all was read: then it is kept for the next request."""
        if self._inner.content.is_eof():
            self._inner.release()
        else:
            self._inner.close()


class HttpClient:
    """The connections to one server."""

    def __init__(self, remote: RemoteConfig, environment: Mapping[str, str]) -> None:
        self._remote = remote
        self._environment = environment
        self._session: aiohttp.ClientSession | None = None
        self._connector: _Connector | None = None

    async def open(self) -> None:
        """Prepare; raise ``Unreachable`` where a certificate of the entry cannot be used."""
        remote = self._remote
        context: ssl.SSLContext | bool = True
        if urlsplit(remote.url).scheme == "https":
            try:
                checked = await asyncio.to_thread(
                    tls.context, remote.ca_file, remote.client_cert, remote.client_key
                )
                checked.set_alpn_protocols(["http/1.1"])
                context = checked
            except (OSError, ssl.SSLError, ValueError) as error:
                files = ", ".join(
                    f"{key} = {value}"
                    for key in ("ca_file", "client_cert", "client_key")
                    if (value := getattr(remote, key))
                )
                why = f"the certificates of its entry cannot be read ({files}): {error}"
                raise Unreachable("tls", why, may_pass=False) from error
        self._connector = _Connector(
            limit=0, keepalive_timeout=KEEP_IDLE_S, ssl=context, socket_factory=_socket
        )
        connect = remote.connect_timeout or None
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            timeout=aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=HEAD_LINE_BYTES,
            max_field_size=HEAD_LINE_BYTES,
            headers={"User-Agent": f"mcpd/{__version__}", "Accept-Encoding": "gzip, deflate"},
        )

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        sending: Callable[[bool], None] | None = None,
    ) -> tuple[Response, str]:
        """Send a request and return the response, and the URL that it came from.

        ``sending`` is called with ``True`` as soon as the server may read some of it. Redirects are
        followed within the origin. Raises ``Unreachable``.
        """
        session = self._session
        if session is None:
            raise Unreachable("refused", "the connection is closed")
        _sending.set(sending)
        for _ in range(MOST_REDIRECTS + 1):
            proxy = proxy_for(url, self._remote.proxy, self._environment)
            try:
                inner = await session.request(
                    method,
                    URL(url),
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                    proxy=proxy,
                )
            except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
                raise _unreachable(error, url, self._remote, proxy) from error
            if inner.status not in _REDIRECTS:
                return Response(inner), url
            target = urljoin(url, inner.headers.get("Location", ""))
            inner.close()
            url = _redirected(method, inner.status, url, target)
        raise Unreachable(
            "redirect", f"redirects without end, at last to {public_part(url)}", may_pass=False
        )

    def drop_idle(self) -> None:
        """Close the connections that nobody uses: the network is another one."""
        if self._connector is not None:
            self._connector.drop_idle()

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _Connector(aiohttp.TCPConnector):
    """Keeps connections, and hands out none that was closed or that the machine has slept over."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._slept_s = _slept_s()

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        """Return a connection, a new one or one that was kept."""
        slept = _slept_s()
        if slept - self._slept_s > SLEPT_S:
            self.drop_idle()
        self._slept_s = slept
        while True:
            connection = await super().connect(*args, **kwargs)
            protocol = connection.protocol
            if protocol is None or not getattr(protocol, "mcpd_is_used", False):
                break
            if not _has_ended(connection.transport):
                break
            connection.close()
        if connection.protocol is not None:
            connection.protocol.mcpd_is_used = True  # type: ignore[attr-defined]
        if (sending := _sending.get()) is not None:
            sending(True)
        return connection

    def drop_idle(self) -> None:
        for kept in list(self._conns.values()):
            for protocol, _ in kept:
                protocol.close()


def _slept_s() -> float:
    """Return the seconds that the machine has slept; only differences count.

    The monotonic clock leaves them out, and with it the time for which a connection is kept.
    """
    return time.clock_gettime(_WITH_SLEEP) - time.monotonic()


def _has_ended(transport: asyncio.Transport | None) -> bool:
    """Return whether the end of an idle connection waits to be read: the server has closed it."""
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None:
        return True
    poll = select.poll()
    try:
        poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True


def _socket(address: Any) -> socket.socket:
    family, kind, number, _, _ = address
    sock = socket.socket(family, kind, number)
    options = [
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", PROBE_AFTER_S),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", int(UNACKNOWLEDGED_S * 1000)),
    ]
    for level, name, value in options:
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(level, option, value)
    return sock


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)


def _redirected(method: str, status: int, url: str, target: str) -> str:
    """Return where a redirect leads, if it may be followed."""
    shown = public_part(target)
    try:
        is_same = origin_of(target) == origin_of(url)
    except ValueError:
        is_same = False
    if not is_same:
        why = f"redirects to another origin ({status}), which is not followed: {shown}"
        raise Unreachable("redirect", why, may_pass=False)
    if method != "GET" and status not in _KEEPING:
        why = f"redirects with {status}, which would lose the request: {shown}"
        raise Unreachable("redirect", why, may_pass=False)
    return target


def _broken(error: BaseException) -> str:
    return f"the connection was lost before the answer was complete ({_words(error)})"


def _unreachable(
    error: BaseException, url: str, remote: RemoteConfig, proxy: str | None
) -> Unreachable:
    """Return what an error of the client means."""
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}"
    match error:
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            said = (
                f" (HTTP {error.status})" if isinstance(error, aiohttp.ClientHttpProxyError) else ""
            )
            through = "" if proxy is None else public_part(proxy)
            return Unreachable("proxy", f"the proxy {through} does not let us through{said}")
        case aiohttp.ClientConnectorCertificateError():
            why = _words(error.certificate_error)
            return _tls(f"the certificate of {where} is refused: {why}", remote)
        case aiohttp.ClientConnectorDNSError():
            return Unreachable("dns", f"the name {parts.hostname} does not resolve")
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return _tls(f"no TLS with {where}: {_words(error)}", remote)
        case aiohttp.ServerFingerprintMismatch():
            return _tls(f"no TLS with {where}", remote)
        case aiohttp.ConnectionTimeoutError():
            why = f"no connection to {where} within {remote.connect_timeout:g} s"
            return Unreachable("refused", why)
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            why = os.strerror(number).lower() if number else _words(error.os_error)
            return Unreachable("refused", f"no connection to {where}: {why}")
        case aiohttp.InvalidURL() | ValueError():
            return Unreachable("http", f"{public_part(url)} cannot be requested", may_pass=False)
        case aiohttp.ServerDisconnectedError():
            return Unreachable(
                "http", f"{where} closed the connection without an answer", is_sent=True
            )
        case _:
            return Unreachable("http", _broken(error), is_sent=True)


def _tls(why: str, remote: RemoteConfig) -> Unreachable:
    where = "the system's and ca_file" if remote.ca_file else "the system's"
    return Unreachable("tls", f"{why} (authorities: {where})", may_pass=False)


def _words(error: BaseException) -> str:
    """Return what an error says, on one line and not too long."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said[:200]
