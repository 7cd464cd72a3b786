"""One request and its response, as an ASGI server sees them."""

from __future__ import annotations

import pytest

from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.exchange import (
    PIECE_BYTES,
    Disconnected,
    Exchange,
    Headers,
    NoRoom,
    TooLarge,
)
from tests.support.asgi import Link


def room(most: int = 10**9) -> Share:
    return Share(Memory(most))


class Server:
    """An ASGI server: the parts of a body, and what is sent."""

    def __init__(self, *parts: bytes, headers=(), link=None, ends: bool = True) -> None:
        self.parts = list(parts)
        self.sent: list = []
        self.ends = ends
        scope = {"method": "POST", "raw_path": b"/mcp", "headers": list(headers)}
        if link is not None:
            scope["state"] = {"connection": link}
        self.exchange = Exchange(scope, self._receive, self._send)

    async def _receive(self):
        if not self.parts:
            return {"type": "http.disconnect"}
        part = self.parts.pop(0)
        return {
            "type": "http.request",
            "body": part,
            "more_body": bool(self.parts) or not self.ends,
        }

    async def _send(self, message) -> None:
        self.sent.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [each["body"] for each in self.sent if each["type"] == "http.response.body"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


def test_header_names_are_in_lower_case_and_values_trimmed():
    headers = Headers([(b"Accept", b" a\t"), (b"ACCEPT", b"b"), (b"X", b"\xe9")])
    assert headers.get("accept") == "b"
    assert headers.joined("accept") == "a, b"
    assert (headers.count("accept"), headers.count("y")) == (2, 0)
    assert (headers.get("x"), headers.get("y"), headers.joined("y")) == ("é", None, None)


async def test_a_body_is_joined_from_its_parts():
    assert await Server(b"ab", b"", b"c").exchange.body(3, room()) == b"abc"
    assert await Server(b"").exchange.body(0, room()) == b""


async def test_a_body_counts_while_it_arrives():
    share = room(1000)
    with pytest.raises(NoRoom):
        await Server(b"a" * 300, b"b" * 300, b"c").exchange.body(10**6, share)
    assert share.kept_bytes == 0
    assert await Server(b"a" * 300).exchange.body(10**6, share)
    assert share.kept_bytes == 0


@pytest.mark.parametrize("headers", [(), [(b"content-length", b"4")]])
async def test_a_body_that_is_too_large_is_not_read_to_its_end(headers):
    server = Server(b"ab", b"cd", b"ef", headers=headers)
    with pytest.raises(TooLarge):
        await server.exchange.body(3, room())
    assert server.parts


async def test_a_client_that_leaves_within_its_body_is_noticed():
    with pytest.raises(Disconnected):
        await Server(b"ab", ends=False).exchange.body(100, room())


async def test_a_small_response_is_one_part():
    server = Server()
    await server.exchange.reply(200, (b'{"a":', b"1}"), [(b"X", b"y")])
    assert server.bodies == [b'{"a":1}']
    assert server.headers == {
        b"X": b"y",
        b"Content-Length": b"7",
        b"Content-Type": b"application/json",
    }
    assert server.exchange.has_started


async def test_a_large_response_is_sent_in_pieces_that_say_their_length():
    server = Server()
    body = (b"a" * (PIECE_BYTES + 1), b"b" * PIECE_BYTES)
    await server.exchange.reply(200, body)
    assert b"".join(server.bodies) == b"".join(body)
    assert max(map(len, server.bodies)) == PIECE_BYTES
    assert server.headers[b"Content-Length"] == b"%d" % len(b"".join(body))
    assert [each["more_body"] for each in server.sent[1:]] == [True, True, True, False]


async def test_what_has_no_body_has_no_type():
    server = Server()
    await server.exchange.reply(202)
    assert server.headers == {b"Content-Length": b"0"}


async def test_no_content_has_no_length():
    """RFC 9110, section 8.6: a server must not send one with 204."""
    server = Server()
    await server.exchange.reply(204)
    assert server.headers == {}


async def test_an_error_without_an_id_leaves_it_out():
    server = Server()
    await server.exchange.reply_error(400, b'{"code":1}')
    assert server.bodies == [b'{"jsonrpc":"2.0","error":{"code":1}}']
    server = Server()
    await server.exchange.reply_error(404, b'{"code":1}', b'"a"')
    assert server.bodies == [b'{"jsonrpc":"2.0","id":"a","error":{"code":1}}']


async def test_a_stream_is_written_in_pieces_and_gets_the_headers_of_cors():
    server = Server()
    server.exchange.extra = [(b"Vary", b"Origin")]
    await server.exchange.start_stream()
    await server.exchange.write(b"x" * PIECE_BYTES)
    await server.exchange.write(b"x")
    await server.exchange.write(b"")
    await server.exchange.end_stream()
    assert server.headers[b"Vary"] == b"Origin"
    assert [len(each) for each in server.bodies] == [PIECE_BYTES, 1, 0]


def test_a_connection_that_was_lost_before_is_told_at_once():
    lost, half = [], []
    link = Link()
    link.lose()
    Server(link=link).exchange.when_lost(lambda: lost.append(1), lambda: half.append(1))
    assert (lost, half) == ([1], [])
    link = Link()
    link.half_close()
    Server(link=link).exchange.when_lost(lambda: lost.append(2), lambda: half.append(2))
    assert (lost, half) == ([1], [2])


def test_a_connection_tells_the_request_that_it_carries_now():
    told = []
    link = Link()
    Server(link=link).exchange.when_lost(lambda: told.append("first"))
    Server(link=link).exchange.when_lost(lambda: told.append("second"))
    link.half_close()
    link.lose()
    assert told == ["second"]


def test_another_server_tells_nothing():
    Server().exchange.when_lost(lambda: None)
