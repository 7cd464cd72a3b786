"""The addresses of the front, and connections on which nothing comes."""

from __future__ import annotations

import asyncio
import socket

import pytest

from mcpd.config.addresses import Address
from mcpd.listeners.http import server
from mcpd.listeners.http.server import HttpServer


async def application(_scope, _receive, _send):
    raise AssertionError("nothing was asked")


@pytest.fixture
async def listening(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 0.05)

    def opened(path):
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        return listening

    front = HttpServer(
        application,
        request_timeout=lambda: 30.0,
        most_connections=10,
        usable_fds=lambda: 10**6,
        open_unix=opened,
    )
    path = str(tmp_path / "s")
    await front.apply([Address(f"unix:{path}", None, path=path)])
    yield path
    await front.close()


async def test_a_connection_on_which_nothing_is_asked_is_closed(listening):
    reader, writer = await asyncio.open_unix_connection(listening)
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
