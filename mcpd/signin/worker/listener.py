"""Where the browser ends after a sign-in: a page on this machine that reads its own address."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
import socket
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec

PATH: Final = "/callback"

_IPV4: Final = "127.0.0.1"
_IPV6: Final = "::1"
_RANDOM_PORTS: Final = 10
"""Random ports to try; one that is free on the first address may be taken on the second."""

_MOST_BYTES: Final = 16 * 1024
_READ_S: Final = 10.0

_PAGE: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mcpd</title></head>'
    "<body><p>{}</p></body></html>"
)
_HEADERS: Final = (
    "Content-Type: text/html; charset=utf-8\r\n"
    "Cache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n"
)


class Answer(msgspec.Struct, frozen=True):
    """What an authorization server answers, in the address to which it sends the browser."""

    code: str = ""
    state: str = ""
    iss: str | None = None
    error: str = ""
    description: str = ""


class NotOurs(Exception):
    """An address that is no answer to this sign-in; the message says why."""


class Listener:
    """Waits for the answer to one sign-in. Anything else leaves it waiting."""

    def __init__(self, host: str = _IPV4) -> None:
        """``host`` is that of the redirect address: ``127.0.0.1`` or ``localhost``."""
        self.host: Final = host
        self._servers: list[asyncio.Server] = []
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._state = ""
        self.port = 0

    async def open(self, *ports: int) -> None:
        """Listen on the first of ``ports`` that is free; 0 is any.

        A browser may resolve ``localhost`` to either loopback address, so that port is needed on
        both. A machine without IPv6 has only the first.

        Raises:
            OSError: none is free.
        """
        addresses = (_IPV4, _IPV6) if self.host == "localhost" and _has_ipv6() else (_IPV4,)
        tries = [port for each in ports for port in [each] * (1 if each else _RANDOM_PORTS)]
        for at, port in enumerate(tries):
            try:
                await self._listen(addresses, port)
            except OSError:
                self.close()
                if at == len(tries) - 1:
                    raise
            else:
                return

    async def _listen(self, addresses: tuple[str, ...], port: int) -> None:
        """Listen on each address, at the same port."""
        for address in addresses:
            server = await asyncio.start_server(
                self._serve, address, port, limit=_MOST_BYTES, reuse_address=True
            )
            self._servers.append(server)
            port = self.port = server.sockets[0].getsockname()[1]

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser is sent with the answer."""
        return f"http://{self.host}:{self.port}{PATH}"

    def expect(self, state: str) -> None:
        """Take the answer that has this ``state``, and no other."""
        self._state = state

    async def answer(self) -> Answer:
        """Wait for the answer."""
        return await self._answer

    def take(self, address: str) -> Answer:
        """Take the answer from the address at which a browser ended.

        Raises:
            NotOurs: it is not the answer to this sign-in.
        """
        found = parse(address)
        if not self._state or not hmac.compare_digest(found.state.encode(), self._state.encode()):
            raise NotOurs("this is not the answer to the sign-in that is waited for")
        if not (found.code or found.error):
            raise NotOurs("this address has neither a code nor an error")
        if not self._answer.done():
            self._answer.set_result(found)
        return found

    def close(self) -> None:
        """Listen no longer."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_READ_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._page(head)
                body = _PAGE.format(html.escape(text)).encode()
                head_out = f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n"
                writer.write(head_out.encode() + body)
                await writer.drain()
        writer.close()

    def _page(self, head: bytes) -> tuple[str, str]:
        method, target, *_ = [*head.split(b"\r\n", 1)[0].decode("latin-1").split(" "), "", ""]
        if urlsplit(target).path != PATH:
            return "404 Not Found", "There is no such page."
        if method != "GET":
            return "405 Method Not Allowed", "Only GET."
        try:
            found = self.take(target)
        except NotOurs as reason:
            return "400 Bad Request", f"{str(reason).capitalize()}."
        if found.error:
            return "200 OK", "The sign-in was refused. You can close this window."
        return "200 OK", "You can close this window, and go back to the terminal."


def _has_ipv6() -> bool:
    """Return whether this machine has the IPv6 loopback address."""
    try:
        socket.create_server((_IPV6, 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def parse(address: str) -> Answer:
    """Read the answer in an address, or in its query alone."""
    text = address.strip()
    try:
        query = urlsplit(text).query if "?" in text else text
        found = parse_qs(query, max_num_fields=50)
    except ValueError:
        return Answer()

    def one(name: str) -> str:
        return found.get(name, [""])[0]

    iss = one("iss") if "iss" in found else None
    return Answer(one("code"), one("state"), iss, one("error"), one("error_description"))
