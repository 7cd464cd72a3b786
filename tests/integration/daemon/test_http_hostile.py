"""Clients over HTTP that send what they should not, or leave when they should not."""

from __future__ import annotations

import socket

from tests.property.hostile.http import raw, request, requests
from tests.support.daemon import Box
from tests.support.httpclient import HttpClient, turned_on
from tests.support.waiting import scaled, wait_until


def sent(client: HttpClient, data: bytes) -> socket.socket:
    """Return a connection on which this was sent."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(scaled(10))
    connection.connect(str(client.path))
    connection.sendall(data)
    return connection


def answers(client: HttpClient, data: bytes) -> bytes:
    """Return everything that is answered until the connection is closed."""
    with sent(client, data) as connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def sessions(box: Box) -> int:
    with box.peer() as peer:
        count: int = peer.request("mcpd/status")["daemon"]["sessions"]
        return count


def test_a_bad_request_behind_good_ones_ends_the_connection_and_nothing_else(box: Box) -> None:
    """
    Nothing is written after the end of what was written.
    """
    client = turned_on(box.fake())
    call = request("tools/call", name="echo", arguments={"text": "x"})
    for _ in range(20):
        good = raw("POST", "/mcp/fake", client, body=call) + raw("GET", "/healthz", client)
        answer = answers(client, good + b"\0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
    assert "Traceback" not in box.tail(100_000)


def test_a_client_that_leaves_at_once_leaves_no_session_behind(box: Box) -> None:
    client = turned_on(box.fake(), keepalive=0)
    for data in (requests(client)[3], requests(client)[4]):
        for _ in range(50):
            sent(client, data).close()
    wait_until(lambda: sessions(box) == 0, 10)
