"""Addresses that are opened and closed, and the connections on them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mcpd.config.addresses import Address
from mcpd.listeners.http import server as servers
from mcpd.listeners.http.server import HttpServer
from tests.support.asgi import FakeCore, Front

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def bound(path: str) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    try:
        opened.bind(path)
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


class Files:
    def open(self, path: str) -> socket.socket:
        return bound(path)

    def remove(self, path: str) -> None:
        Path(path).unlink()


def make(most: int = 100, fds: int = 10**6) -> HttpServer:
    return HttpServer(
        Front(FakeCore()).application,
        request_timeout=lambda: 30.0,
        most_connections=most,
        usable_fds=lambda: fds,
        unix=Files(),
    )


def unix(path: Path) -> Address:
    return Address(f"unix:{path}", None, path=str(path))


def tcp(host: str, port: int) -> Address:
    return Address(f"{host}:{port}", host, port)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


async def asked(path: Path) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(HEALTH)
    return await reader.readline(), reader, writer


async def test_addresses_are_opened_and_closed_and_others_are_not_touched(tmp_path, port):
    server = make()
    first, second = unix(tmp_path / "a"), tcp("127.0.0.1", port)
    await server.apply([first, second, first])
    assert server.addresses == [first, second] and not server.troubles
    status, reader, writer = await asked(tmp_path / "a")
    assert status == b"HTTP/1.1 200 OK\r\n"
    await server.apply([first])
    assert server.addresses == [first]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await server.apply([second])
    assert not (tmp_path / "a").exists()
    writer.write(HEALTH)
    await reader.readuntil(b"200 OK")
    writer.close()
    await server.close()
    assert server.addresses == []
    await server.wait_quiet(5)


async def test_an_address_in_use_is_named_and_the_others_are_open(tmp_path, port):
    with socket.create_server(("127.0.0.1", port)):
        server = make()
        await server.apply([tcp("127.0.0.1", port), unix(tmp_path / "a")])
        (trouble,) = server.troubles
        assert trouble.is_in_use and trouble.address.port == port
        assert server.addresses == [unix(tmp_path / "a")]
    await server.apply([tcp("127.0.0.1", port), unix(tmp_path / "a")])
    assert len(server.addresses) == 2 and not server.troubles
    await server.close()


async def test_localhost_is_both_families_or_none(port):
    server = make()
    await server.apply([tcp("localhost", port)])
    assert server.addresses
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await server.close()
    with socket.create_server(("127.0.0.1", port)):
        await server.apply([tcp("localhost", port)])
        assert server.troubles and not server.addresses
    await server.apply([tcp("localhost", port)])
    assert server.addresses, "nothing of the attempt is left"
    await server.close()


async def test_what_a_socket_cannot_be_bound_to_is_a_trouble(tmp_path):
    server = make()
    await server.apply([unix(tmp_path / "missing" / "a"), tcp("192.0.2.1", 1)])
    assert [each.is_in_use for each in server.troubles] == [False, False]


@pytest.mark.parametrize("limit", [{"most": 1}, {"fds": 0}])
async def test_one_connection_too_many_is_refused(tmp_path, limit):
    server = make(**limit)
    await server.apply([unix(tmp_path / "a")])
    kept = []
    if "most" in limit:
        kept.append(await asked(tmp_path / "a"))
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a"))
    assert (await reader.readline()).startswith(b"HTTP/1.1 503")
    writer.close()
    for _, _, each in kept:
        each.close()
    await server.close()
    await server.wait_quiet(5)


async def test_connections_are_cut_where_they_do_not_end(tmp_path):
    server = make()
    await server.apply([unix(tmp_path / "a")])
    _, writer = await asyncio.open_unix_connection(str(tmp_path / "a"))
    writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")
    while not server._connections:
        await asyncio.sleep(0)
    await server.wait_quiet(0.01)
    server.abort()
    await server.wait_quiet(5)
    assert not server._connections
    writer.close()
    await server.close()


async def test_a_connection_on_which_nothing_is_asked_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(servers, "KEEP_ALIVE_S", 0.05)
    server = make()
    await server.apply([unix(tmp_path / "a")])
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a"))
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
    await server.close()
