"""One client's connection: how requests may arrive, torn, too large, too slow or several at once."""

from __future__ import annotations

import asyncio
import errno

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from mcpd.listeners.http.protocol import LINGER_S, MOST_HEADER_BYTES, Connection
from tests.support.virtualtime import settle, virtual

HEAD = b"POST /%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


def post(path: bytes = b"echo", body: bytes = b"", length: int | None = None) -> bytes:
    return HEAD % (path, len(body) if length is None else length) + body


class Wire(asyncio.Transport):
    """A client's side: what it has been sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.writes = 0
        self.is_shut = self.is_closed = self.is_late = False
        self.is_paused = False
        self.protocol: Connection | None = None

    def write(self, data: bytes) -> None:
        self.is_late = self.is_late or self.is_shut
        if not self.is_closed:
            self.sent += data
            self.writes += 1

    def write_eof(self) -> None:
        self.is_shut = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            assert self.protocol
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    @property
    def statuses(self) -> list[int]:
        return [int(each[:3]) for each in self.sent.split(b"HTTP/1.1 ")[1:]]


class Client:
    """A connection to an application that answers with what it is sent."""

    answers_whole = False
    """Whether responses are written whole, where the connection can."""

    def __init__(self, *, timeout: float = 30.0, admits: bool = True) -> None:
        self.bodies: list[bytes] = []
        self.lost: list[str] = []
        self.gone: list[Connection] = []
        self.holds = asyncio.Event()
        config = Config(
            self._serve,
            loop="none",
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            timeout_keep_alive=75,
        )
        config.load()
        self.connection = Connection(
            config, ServerState(), lambda: timeout, lambda _: admits, self.gone.append
        )
        self.wire = Wire()
        self.wire.protocol = self.connection
        self.connection.connection_made(self.wire)

    async def _serve(self, scope, receive, send) -> None:
        path = scope["path"]
        self.connection.on_lost = lambda: self.lost.append(path)
        self.connection.on_half_closed = lambda: self.lost.append(f"half of {path}")
        body, more = b"", path != "/early"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        if path == "/wait":
            await self.holds.wait()
        head = [(b"content-length", b"%d" % len(body))]
        is_whole = self.answers_whole and path != "/begin"
        if is_whole and self.connection.respond(200, body, head):
            return
        await send({"type": "http.response.start", "status": 200, "headers": head})
        if path == "/begin":
            await self.holds.wait()
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def send(self, *parts: bytes) -> Client:
        for part in parts:
            if not self.wire.is_closed:
                self.connection.data_received(part)
                await settle()
        assert not self.wire.is_late, "something is written after the end"
        return self

    @property
    def statuses(self) -> list[int]:
        return self.wire.statuses


@pytest.fixture(autouse=True, params=[False, True], ids=["over ASGI", "whole"])
def answers_whole(request, monkeypatch):
    """Run each test with responses of both kinds."""
    monkeypatch.setattr(Client, "answers_whole", request.param)
    return request.param


@virtual
async def test_a_request_that_is_torn_everywhere_is_served():
    data = post(body=b"ab")
    client = await Client().send(*(data[at : at + 1] for at in range(len(data))))
    assert (client.statuses, client.bodies) == ([200], [b"ab"])
    await asyncio.sleep(31)
    assert not client.wire.is_closed, "a connection may wait for its next request"


@virtual
async def test_requests_are_answered_one_after_another():
    client = await Client().send(post(b"wait", b"a") + post(body=b"b") + post(body=b"c"))
    assert client.statuses == []
    client.holds.set()
    await settle()
    assert (client.statuses, client.bodies) == ([200] * 3, [b"a", b"b", b"c"])
    assert client.wire.sent.index(b"\r\n\r\na") < client.wire.sent.index(b"\r\n\r\nb")


SMUGGLED = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "a list of lengths": b"Content-Length: 5, 6\r\n\r\nabcdef",
    "a signed length": b"Content-Length: +5\r\n\r\nabcde",
    "a negative length": b"Content-Length: -5\r\n\r\nabcde",
    "a huge length": b"Content-Length: 99999999999999999999\r\n\r\nabcde",
    "chunks last but one": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "odd chunks": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a bare LF": b"X: a\nContent-Length: 0\r\n\r\n",
    "a bare CR": b"X: a\rContent-Length: 0\r\n\r\n",
    "a NUL": b"X: a\0b\r\n\r\n",
    "a chunk that is no number": b"Transfer-Encoding: chunked\r\n\r\nx\r\nab\r\n0\r\n\r\n",
    "a chunk of 2**64": b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nab\r\n0\r\n\r\n",
    "a chunk that goes on": b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
    "a chunk's bare LF": b"Transfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n",
    "a name of no letters": b"\x80: a\r\n\r\n",
}


@pytest.mark.parametrize("headers", SMUGGLED.values(), ids=SMUGGLED)
@virtual
async def test_what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_served(headers):
    """
    A proxy in front of us that reads it in the other way would see another request.
    """
    data = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + headers
    client = await Client().send(data + post(b"echo", b"smuggled"))
    assert client.statuses == [400], client.wire.sent
    assert b"smuggled" not in client.bodies
    await asyncio.sleep(LINGER_S + 0.1)
    assert client.wire.is_closed and client.gone


@pytest.mark.parametrize(
    "data",
    [b"\0", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"get / HTTP/1.1\r\n\r\n",
     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"CONNECT evil:80 HTTP/1.1\r\n\r\n", b"GET http:// HTTP/1.1\r\n\r\n",
     b"GET http:// HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
     b"CONNECT evil:80 HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"],
)  # fmt: skip
@virtual
async def test_what_is_no_request_is_refused(data):
    client = await Client().send(data)
    assert client.statuses == [400]


@virtual
async def test_headers_have_a_limit_however_they_come():
    line = b"X: " + b"a" * 1000 + b"\r\n"
    begin = b"GET /echo HTTP/1.1\r\nHost: localhost\r\n"
    whole = await Client().send(begin + line * 70 + b"\r\n")
    torn = await Client().send(begin, *([line] * 70))
    endless = await Client().send(begin + b"X: ", *([b"a" * 1000] * 70))
    target = await Client().send(b"GET /", *([b"a" * 1000] * 70))
    for client in (whole, torn, endless, target):
        assert client.statuses == [431] and not client.bodies
    assert MOST_HEADER_BYTES < 70_000


@virtual
async def test_trailers_and_chunk_extensions_have_the_same_limit():
    """
    They are headers, too: without a limit a client could fill the memory within its time.
    """
    begin = (
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
    )
    for first, more in (
        (b"0\r\n", b"X: " + b"a" * 997 + b"\r\n"),
        (b"0\r\nX: ", b"a" * 1000),
        (b"2;", b"a" * 1000),
    ):
        client = await Client().send(begin + first, *([more] * 70))
        assert client.statuses == [431], first
        assert not client.bodies


@virtual
async def test_a_long_body_in_small_chunks_is_no_long_header():
    begin = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    client = await Client().send(begin, *([b"1;x=y\r\na\r\n" * 100] * 200), b"0\r\nX: y\r\n\r\n")
    assert (client.statuses, client.bodies) == ([200], [b"a" * 20_000])


@pytest.mark.parametrize(
    "data",
    [b"G", b"GET /echo HTTP/1.1\r\nHost: lo", post(body=b"a", length=2), b"\r\n",
     post() + post(body=b"a", length=2), post() + b"G"],
    ids=["a method", "a header", "a body", "an empty line", "a second body", "a second method"],
)  # fmt: skip
@virtual
async def test_a_request_has_so_long_to_arrive(data):
    client = await Client(timeout=30).send(data)
    served = [200] * (data.count(b"POST") - data.endswith(b"a"))
    assert client.statuses == served
    await asyncio.sleep(29)
    assert client.statuses == served
    await asyncio.sleep(3)
    assert client.statuses == [*served, 408]
    assert client.wire.is_closed


@virtual
async def test_a_request_that_waits_for_another_has_its_time_from_the_end_of_that():
    """
    Nothing is read for it before, so that its client cannot send the rest.
    """
    client = await Client(timeout=30).send(post(b"wait") + post(body=b"a", length=2))
    await asyncio.sleep(100)
    assert client.statuses == []
    client.holds.set()
    await asyncio.sleep(29)
    assert client.statuses == [200]
    await client.send(b"b")
    assert (client.statuses, client.bodies[-1]) == ([200, 200], b"ab")
    await asyncio.sleep(31)
    assert not client.wire.is_closed


@virtual
async def test_a_request_that_is_answered_may_take_as_long_as_it_takes():
    client = await Client(timeout=30).send(post(b"wait", b"a"))
    await asyncio.sleep(100)
    assert client.statuses == []
    client.holds.set()
    await settle()
    assert client.statuses == [200]


@virtual
async def test_no_limit_is_no_limit():
    client = await Client(timeout=0).send(b"GET /ec")
    await asyncio.sleep(10_000)
    await client.send(b"ho HTTP/1.1\r\n\r\n")
    assert client.statuses == [200]


@virtual
async def test_a_response_that_comes_before_its_request_is_whole_ends_nothing():
    client = await Client().send(post(b"early", b"a", 3), b"bc", post(body=b"d"))
    assert (client.statuses, client.bodies) == ([200, 200], [b"", b"d"])


@virtual
async def test_what_follows_bad_bytes_in_an_answer_that_has_begun_is_cut_off():
    """
    A second answer within the first would be a part of it.
    """
    client = await Client().send(post(b"begin", b"ab"), b"\0\0\r\n\r\n")
    client.holds.set()
    await settle()
    assert client.statuses == [200]
    assert client.wire.is_closed and not client.wire.sent.endswith(b"ab")


@virtual
async def test_a_client_that_leaves_is_noticed_by_the_request_that_is_answered():
    client = await Client().send(post(b"wait") + post())
    client.connection.eof_received()
    assert client.lost == ["half of /wait"]
    client.wire.close()
    await settle()
    assert client.lost == ["half of /wait", "/wait"]
    assert client.gone == [client.connection]
    client.holds.set()
    await settle()
    assert client.statuses == [] and len(client.bodies) == 1


@virtual
async def test_a_client_may_close_its_own_side_before_the_response():
    client = await Client().send(post(b"wait", b"a"))
    assert client.connection.eof_received() is True
    client.holds.set()
    await settle()
    assert client.statuses == [200]
    assert client.connection.eof_received() is False, "nothing is answered any more"


@virtual
async def test_one_connection_too_many_is_told_to_come_back():
    client = Client(admits=False)
    assert client.statuses == [503] and b"Retry-After: 1\r\n" in client.wire.sent
    await client.send(post())
    await asyncio.sleep(LINGER_S + 0.1)
    assert client.wire.is_closed and not client.bodies and not client.gone


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"x"])
@virtual
async def test_a_request_for_another_protocol_is_answered_in_this_one(protocol):
    """
    Java's HTTP client and ``curl --http2`` ask so. The parser would take the body for what follows
    in the other protocol, and its rest for another request.
    """
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\n" % protocol
    body = post(b"smuggled", b"x")
    data = post(body=body).replace(b"\r\n\r\n", b"\r\n" + upgrade + b"\r\n", 1)
    client = await Client().send(data * 3 + post(body=b"c"))
    assert (client.statuses, client.bodies) == ([200] * 4, [body] * 3 + [b"c"])
    for size in (1, 7, len(data) - len(body)):
        client = await Client().send(
            *(data[at : at + size] for at in range(0, len(data), size)), post(body=b"c")
        )
        assert (client.statuses, client.bodies) == ([200] * 2, [body, b"c"])
        assert not client.wire.is_closed


@virtual
async def test_many_requests_for_another_protocol_cost_no_more_than_others():
    upgrade = b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    client = await Client().send(upgrade * 3000)
    await settle()
    assert client.statuses == [200] * 3000


@virtual
async def test_a_connection_that_is_to_be_closed_is_closed_after_an_upgrade_that_was_not_done():
    data = b"GET / HTTP/1.1\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"
    client = await Client().send(data)
    assert client.statuses == [200] and client.wire.is_closed


@virtual
async def test_a_connection_that_was_reset_is_closed_without_a_word(monkeypatch):
    """
    ``shutdown`` fails there with ENOTCONN.
    """

    def refuse() -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    client = Client()
    monkeypatch.setattr(client.wire, "write_eof", refuse)
    await client.send(b"\0\r\n\r\n")
    assert client.wire.is_closed and client.gone


@virtual
async def test_a_request_that_is_refused_is_not_told_to_go_on():
    """
    Its body would be asked for after the end of what is written, which raises.
    """
    head = post(length=5).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    client = await Client().send(head + b"abcde" + b"\0")
    assert client.statuses == [400] and not client.bodies
    good = await Client().send(head)
    assert good.statuses == [100]
    await good.send(b"abcde")
    assert (good.statuses, good.bodies) == ([100, 200], [b"abcde"])


@virtual
async def test_a_whole_response_is_one_write(answers_whole):
    client = await Client().send(post(body=b"one"))
    assert client.wire.sent == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none"
    assert client.wire.writes == (1 if answers_whole else 2)
    await client.send(HEAD.replace(b"1.1", b"1.0") % (b"echo", 3) + b"two")
    assert client.wire.sent.endswith(b"content-length: 3\r\nconnection: close\r\n\r\ntwo")
    assert client.wire.is_closed


@virtual
async def test_a_response_to_a_client_that_does_not_read_waits(answers_whole):
    client = Client()
    client.connection.pause_writing()
    await client.send(post(body=b"one"))
    assert client.bodies == [b"one"]
    assert client.wire.sent == b""
    client.connection.resume_writing()
    await settle()
    assert client.wire.statuses == [200]
    assert client.wire.sent.endswith(b"one")


@virtual
async def test_a_request_for_the_head_alone_is_answered_with_that(answers_whole):
    client = await Client().send(b"HEAD /echo HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert client.wire.sent == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    assert not client.wire.is_closed
