"""On which addresses and ports the answer of a browser is waited for."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from mcpd.signin.worker import listener
from mcpd.signin.worker.listener import Listener
from tests.support.loopback import needs_ipv6, taken

IPV4, IPV6 = "127.0.0.1", "::1"


async def addresses(waiting: Listener, *ports: int) -> list[str]:
    """Listen, and return on which addresses: all that the port is open on."""
    await waiting.open(*ports)
    found = []
    for server in waiting._servers:
        for each in server.sockets:
            host, port, *_ = each.getsockname()
            assert port == waiting.port
            found.append(host)
    waiting.close()
    return found


async def test_the_usual_host_is_one_address() -> None:
    waiting = Listener()
    assert await addresses(waiting, 0) == [IPV4]
    assert waiting.redirect_uri == f"http://127.0.0.1:{waiting.port}/callback"


@needs_ipv6
async def test_localhost_is_both_loopback_addresses_and_no_other() -> None:
    waiting = Listener("localhost")
    assert await addresses(waiting, 0) == [IPV4, IPV6]
    assert waiting.redirect_uri == f"http://localhost:{waiting.port}/callback"


@pytest.mark.parametrize("reason", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
async def test_without_ipv6_localhost_is_one_address(
    monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    def create_server(*_: Any, **__: Any) -> socket.socket:
        raise OSError(reason, "no IPv6")

    monkeypatch.setattr(listener.socket, "create_server", create_server)
    assert await addresses(Listener("localhost"), 0) == [IPV4]


@needs_ipv6
@pytest.mark.parametrize("host", [IPV4, IPV6])
async def test_localhost_needs_its_port_on_both(host: str) -> None:
    """
    The next port is tried, and nothing stays open on the first.
    """
    with taken(host) as port:
        with pytest.raises(OSError, match="in use"):
            await Listener("localhost").open(port)
        waiting = Listener("localhost")
        assert await addresses(waiting, port, 0) == [IPV4, IPV6] and waiting.port != port
        if host == IPV6:
            assert await addresses(Listener(), port) == [IPV4]


@needs_ipv6
async def test_another_random_port_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One that was free on the first address is taken on the second.
    """
    start_server = asyncio.start_server
    tried = []
    with taken(IPV6) as port:

        async def start(serve: Any, host: str, wanted: int, **more: Any) -> asyncio.Server:
            tried.append((host, wanted))
            return await start_server(serve, host, port if len(tried) == 1 else wanted, **more)

        monkeypatch.setattr(asyncio, "start_server", start)
        waiting = Listener("localhost")
        assert await addresses(waiting, 0) == [IPV4, IPV6] and waiting.port != port
    assert tried == [(IPV4, 0), (IPV6, port), (IPV4, 0), (IPV6, waiting.port)]
