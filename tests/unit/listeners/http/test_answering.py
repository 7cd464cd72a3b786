"""What comes for one request: as JSON, as a stream, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.answering import Manner, answer
from mcpd.listeners.http.exchange import Exchange
from mcpd.listeners.http.keepalive import Keepalive
from mcpd.listeners.http.requests.guards import JSON, STREAM, Accepted
from mcpd.listeners.http.streams import Event, Outbox
from tests.support.asgi import Exchanged, Link, result
from tests.support.virtualtime import settle, virtual


class Told:
    """A request that is answered from an outbox."""

    def __init__(self, accept: str | None = None, **manner) -> None:
        self.outbox = Outbox(10**6, Share(Memory(10**9)))
        self.exchanged = Exchanged(Link())
        self.keepalive = Keepalive(0)
        self.was_json: bool | None = None
        self._manner = Manner(Accepted(accept), manner.pop("json_wait", 5.0), **manner)
        scope = {"method": "POST", "raw_path": b"/mcp", "headers": []}
        self.exchanged.start(self._serve, scope, [b""])

    async def _serve(self, scope, receive, send) -> None:
        exchange = Exchange(scope, receive, send)
        self.was_json = await answer(exchange, self.outbox, self._manner, self.keepalive)

    async def put(self, line: bytes, *, is_response: bool = False) -> None:
        self.outbox.put(Event(1, None, line, is_response))
        if is_response:
            self.outbox.close()
        await settle()


def code(text: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"error":{"code":' + text + b',"message":"no"}}\n'


@virtual
async def test_a_response_that_comes_first_is_json():
    told = Told()
    await told.put(result(1), is_response=True)
    assert told.was_json
    assert told.exchanged.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


@virtual
async def test_what_comes_before_the_response_makes_a_stream_of_it():
    told = Told()
    await told.put(b'{"n":1}\n')
    assert told.exchanged.messages == [{"n": 1}]
    await told.put(result(1), is_response=True)
    assert told.was_json is False
    assert [each.get("n") for each in told.exchanged.messages] == [1, None]
    assert told.exchanged.is_complete


@virtual
async def test_a_response_that_takes_long_is_a_stream_from_the_time_limit_on():
    told = Told(json_wait=2.0, prime=lambda: b"id: a\ndata:\n\n")
    await settle()
    assert not told.exchanged.status
    await asyncio.sleep(2.1)
    assert told.exchanged.events == [("a", None)]
    await told.put(result(1), is_response=True)
    assert len(told.exchanged.messages) == 1


@virtual
async def test_a_client_that_takes_json_alone_gets_the_response_however_long_it_takes():
    told = Told(JSON, json_wait=0.5)
    await told.put(b'{"n":1}\n')
    await asyncio.sleep(100)
    assert not told.exchanged.status
    await told.put(result(1), is_response=True)
    assert told.exchanged.json()["result"] == {}


@virtual
async def test_a_client_that_takes_a_stream_alone_gets_one_at_once():
    told = Told(STREAM)
    await settle()
    assert told.exchanged.headers["content-type"].startswith(STREAM)
    await told.put(result(1), is_response=True)
    assert told.exchanged.messages == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.parametrize("accept", [None, JSON])
@virtual
async def test_a_request_that_gets_no_response_is_accepted(accept):
    told = Told(accept)
    told.outbox.close()
    await settle()
    assert (told.exchanged.status, told.exchanged.body) == (202, b"")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"-32601", 404),
        (b"-0", 404),
        (b'"-32601"', 200),
        (b"1e3", 200),
        (b"null", 200),
        (b"-" + b"1" * 5000, 200),
        (b"-" + b"1" * 70000, 200),
    ],
    ids=lambda each: each[:10] if isinstance(each, bytes) else None,
)
@virtual
async def test_the_status_is_that_of_the_error_if_its_code_is_an_integer(text, status):
    """
    A code of thousands of digits is a server's mistake, and no reason to fail.
    """
    told = Told(status_of=lambda _code: 404)
    await told.put(code(text), is_response=True)
    await told.exchanged.wait()
    assert told.exchanged.status == status
    assert told.exchanged.body == code(text)


@virtual
async def test_a_large_response_is_sent_in_parts():
    parts = (b'{"jsonrpc":"2.0","id":1,"result":"', b"x" * 200_000, b'"}\n')
    told = Told()
    told.outbox.put(Event(1, None, parts, True))
    await settle()
    assert told.exchanged.body == b"".join(parts)
