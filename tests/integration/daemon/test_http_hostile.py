"""Clients over HTTP that send what they should not, or leave when they should not."""

from __future__ import annotations

import json
import os
import select
import socket
from pathlib import Path

import pytest

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


def statuses(client: HttpClient, data: bytes) -> list[int]:
    """Return the statuses of everything that is answered until the connection is closed."""
    found = answers(client, data).split(b"HTTP/1.1 ")[1:]
    return [int(each.split()[0]) for each in found]


def resident(box: Box) -> int:
    """Return the bytes of memory that the daemon uses."""
    assert box.daemon
    pages = Path(f"/proc/{box.daemon.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


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


LAST = ("Connection: close",)
JSON = "Content-Type: application/json"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("part", [b"1;", b"0\r\nX-A: ", b"0\r\n"], ids=["chunk", "one", "many"])
def test_what_frames_a_body_is_bounded_and_is_kept_nowhere(box: Box, part: bytes) -> None:
    client = turned_on(box.fake())
    head = raw("POST", "/mcp/fake", client, "Transfer-Encoding: chunked", JSON)
    data = (b"a" * 1000 if part[-1:] != b"\n" else b"X-A: " + b"b" * 1000 + b"\r\n") * 1000
    before = resident(box)
    with sent(client, head) as sock:
        sock.sendall(b"5\r\n[1,2,\r\n" + part)
        for _ in range(100):
            sock.sendall(data)
        assert sock.recv(100).startswith(b"HTTP/1.1 431 ")
    assert resident(box) - before < 30 * 2**20


def test_many_short_chunks_are_a_body(box: Box) -> None:
    client = turned_on(box.fake())
    call = json.dumps(request("tools/call", name="echo", arguments={"text": "x" * 50_000}))
    head = raw("POST", "/mcp/fake", client, *LAST, JSON, "Transfer-Encoding: chunked")
    chunks = b"".join(b"1\r\n%c\r\n" % each for each in call.encode())
    assert statuses(client, head + chunks + b"0\r\n\r\n") == [200]


def test_the_offer_of_another_protocol_is_ignored(box: Box) -> None:
    """
    What follows it is the body, and no request.
    """
    client = turned_on(box.fake())
    last = raw("GET", "/healthz", client, *LAST)
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    good = raw("POST", "/mcp/fake", client, *offer, body=request("ping"))
    assert statuses(client, good + last) == [200, 200]
    closing = ("Connection: close, Upgrade", "Upgrade: h2c")
    hidden = raw("POST", "/mcp/fake", client, *closing, f"Content-Length: {len(last)}")
    assert statuses(client, hidden + last) == [415]
    websocket = raw("GET", "/healthz", client, "Connection: Upgrade", "Upgrade: websocket")
    assert statuses(client, websocket + last) == [200, 200]


def test_a_request_that_is_answered_before_it_is_whole_is_answered_once(box: Box) -> None:
    """
    It is the last of its connection where its client waits to be told to go on: it need not send
    the body, and its next request would be taken for that.
    """
    client = turned_on(box.fake(), request_timeout=0.3)
    length = "Content-Length: 99999999999"
    large = raw("POST", "/mcp/fake", client, JSON, "Expect: 100-continue", length)
    assert statuses(client, large + raw("GET", "/healthz", client)) == [413]
    refused = raw("POST", "/mcp/fake", client, "Content-Type: text/plain", "Content-Length: 9")
    assert statuses(client, refused) == [415]


def test_a_request_that_came_with_another_has_no_longer_to_arrive(box: Box) -> None:
    client = turned_on(box.fake(), request_timeout=0.3)
    first = raw("GET", "/healthz", client)
    for rest in (raw("POST", "/mcp/fake", client, JSON, "Content-Length: 5"), b"POST /mcp"):
        assert statuses(client, first + rest) == [200, 408]


def test_a_target_with_a_host_is_of_that_host(box: Box) -> None:
    client = turned_on(box.fake())
    ping = request("ping")
    assert statuses(client, raw("POST", "http://evil.test/mcp/fake", client, *LAST, body=ping)) == [
        421
    ]
    ours = raw("POST", "http://localhost:1/mcp/fake", client, *LAST, body=ping)
    assert statuses(client, ours) == [200]


def test_headers_that_are_sent_twice_are_refused(box: Box) -> None:
    """
    A proxy in front could have looked at the other one.
    """
    client = turned_on(box.fake())
    ping = request("ping")
    for header, status in (
        (f"Authorization: Bearer {client.token}", 401),
        ("Mcp-Session-Id: x\r\nMcp-Session-Id: y", 400),
        ("MCP-Protocol-Version: 2025-06-18\r\nMCP-Protocol-Version: 2026-07-28", 400),
        ("Content-Type: text/plain", 400),
        ("Host: localhost", 421),
    ):
        assert statuses(client, raw("POST", "/mcp/fake", client, *LAST, header, body=ping)) == [
            status
        ]


def test_bodies_that_arrive_are_bounded_together(box: Box) -> None:
    """
    Connections are many, and none of these requests is in flight.
    """
    box.settings = {"max_buffered_bytes": 16 * 2**20}
    client = turned_on(box.fake())
    peer = box.session()
    head = raw("POST", "/mcp/fake", client, JSON, "Content-Length: 5000000")
    held = [sent(client, head) for _ in range(3)]
    for sock in held:
        sock.sendall(b" " * 4_900_000)
    answered = [sock for sock in held if select.select([sock], [], [], scaled(0.5))[0]]
    assert answered
    assert answered[0].recv(100).startswith(b"HTTP/1.1 503 ")
    assert peer.text("echo", text="x" * 10**6)
    for sock in held:
        sock.close()
    wait_until(lambda: client.rpc("echo", {"text": "x" * 10**6}).code() == 200, 10)


def test_a_batch_whose_requests_are_all_cancelled_is_over(box: Box) -> None:
    client = turned_on(box.fake())
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a"}}
    with client.request("POST", "/mcp/fake", request("initialize", **hello)) as answer:
        headers = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
    hang = request("tools/call", name="hang", arguments={})
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1},
    }
    assert client.request("POST", "/mcp/fake", [hang, cancel], headers).code() == 202
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    with client.request("POST", "/mcp/fake", [hang, cancel, ping], headers) as answer:
        assert [each["id"] for each in answer.json()] == [2]
    for wrong in (1, [], [ping], {**ping, "id": None}):
        assert client.request("POST", "/mcp/fake", [wrong], headers).code() == 400
        assert client.request("POST", "/mcp/fake", [ping, wrong], headers).code() == 400
    with client.request("POST", "/mcp/fake", [request("initialize", **hello)], headers) as answer:
        assert [each["error"]["code"] for each in answer.json()] == [-32600]


def test_a_request_of_a_session_that_ends_is_404(box: Box) -> None:
    client = turned_on(box.fake(), json_wait=60)
    session = client.session()
    headers = [f"{name}: {value}" for name, value in session.headers.items()]
    hang = request("tools/call", name="hang", arguments={})
    with sent(client, raw("POST", "/mcp/fake", client, *LAST, *headers, body=hang)) as sock:
        wait_until(lambda: any("tools/call" in str(each) for each in box.journal()), 10)
        assert client.request("DELETE", "/mcp/fake", None, session.headers).code() == 204
        assert sock.recv(100).startswith(b"HTTP/1.1 404 ")


def test_an_old_proxy_gets_a_stream_that_ends_with_the_connection(box: Box) -> None:
    """
    HTTP/1.0 has no chunks; it is what nginx speaks unless it is told otherwise.
    """
    client = turned_on(box.fake())
    call = request("tools/call", name="progress", arguments={"steps": 2})
    call["params"]["_meta"] = {"progressToken": 1}
    old = raw("POST", "/mcp/fake", client, body=call).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    head, _, body = answers(client, old).partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    events = [line for line in body.split(b"\n") if line.startswith(b"data: ")]
    assert len(events) == 3
    assert body.endswith(b"}\n\n")
    assert b"\r" not in body
    ping = raw("POST", "/mcp/fake", client, body=request("ping")).replace(b"/1.1", b"/1.0", 1)
    assert b'"result":{}' in answers(client, ping)
