"""What goes wrong between us and a server that is reached by URL."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from mcpd.upstreams.http import client as http_client
from tests.support.remoteserver import text_of
from tests.support.waiting import wait_until_async


def whole_answer(asked, form: str) -> bytes:
    body = json.dumps(
        {"jsonrpc": "2.0", "id": asked.message["id"], "result": text_of("whole")},
        separators=(",", ":"),
    ).encode()
    if form == "json":
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
    event = b"data: " + body + b"\n\n"
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
        % (len(event), event)
    )


@pytest.mark.parametrize("form", ["json", "sse"])
async def test_an_answer_that_is_cut_at_any_byte(far, server, form):
    """Nobody gets half of it: the call that may be repeated is, and the other says what is unknown."""
    client, cut_at, sizes = await far.client(), [0], []

    def cut(asked):
        data = whole_answer(asked, form)
        sizes.append(len(data))
        asked.raw(data[: cut_at[0]])
        asked.cut()

    server.on["tools/call:count"] = cut
    await client.error("count")
    for at in range(sizes[0]):
        cut_at[0] = at
        answer = await client.finish(client.call("count"))
        if "error" in answer:
            data = answer["error"]["data"]
            assert data["kind"] == "connect_failed" and data["outcome_unknown"], (at, answer)
        else:  # only what closes the stream is missing
            assert form == "sse" and answer["result"]["content"][0]["text"] == "whole", at
    assert server.made == 1 and (await far.status())["state"] == "ready"
    cut_at[0] = sizes[0] // 2
    server.on["tools/call:echo"] = lambda asked: (cut(asked), server.on.pop("tools/call:echo"))[0]
    assert await client.text("echo", text="again") == "again"


async def test_a_server_that_is_started_again_under_twenty_sessions(far, server):
    clients = [await far.client() for _ in range(20)]
    for turn in range(3):
        await server.stop()
        server.forget()
        await server.start()
        calls = [(each, each.call("count")) for each in clients]
        for each, ident in calls:
            assert "result" in await each.finish(ident), turn
    assert server.count == 60 and server.made == 4
    assert (await far.status())["restarts"] == 0


async def test_a_session_that_is_not_known_and_refused_with_400(far, server):
    """As servers on the TypeScript SDK do, server-everything among them."""
    server.lost_status = 400
    clients = [await far.client() for _ in range(20)]
    await clients[0].text("count")
    server.forget()
    calls = [(each, each.call("count")) for each in clients]
    for each, ident in calls:
        assert "result" in await each.finish(ident)
    assert server.count == 21 and server.made == 2
    assert (await far.status())["restarts"] == 0


@pytest.mark.parametrize("status", [404, 400])
async def test_a_session_is_made_again_where_only_its_stream_tells_of_the_loss(far, server, status):
    """Clients that ask for nothing are told of changes by the new server, too."""

    def listen(asked):
        if asked.session in server.sessions:
            return server.serve(asked)
        asked.reply(status)
        return None

    server.has_stream, server.lost_status = True, status
    server.on["GET"] = listen
    client = await far.client()
    await client.text("count")
    await wait_until_async(lambda: server.streams)
    await server.stop()
    server.forget()
    await server.start()
    await wait_until_async(lambda: server.made == 2 and server.streams)
    assert (await far.status())["restarts"] == 0


async def test_a_stream_that_cannot_be_resumed_begins_again(far, server):
    """The server does not hold the event any more from which it would go on."""

    def listen(asked):
        if "last-event-id" in asked.headers:
            asked.reply(404)
            return None
        if len(server.seen("GET")) > 1:
            return server.serve(asked)
        asked.begin_stream()
        asked.chunk(b"retry: 10\nid: 1\ndata:\n\n")
        asked.end_stream()
        return None

    server.has_stream = True
    server.on["GET"] = listen
    client = await far.client()
    await client.text("count")
    await wait_until_async(lambda: server.streams)
    assert len(server.seen("GET")) == 3 and server.made == 1


@pytest.mark.parametrize("pong", [200, 400])
async def test_a_request_that_is_refused_with_400_in_a_session_that_is_known(far, server, pong):
    """Nothing is sent again: the answer is the server's own, whether it knows pings or not."""
    client = await far.client()
    await client.text("count")

    def refuse(code, status):
        def answer(asked):
            error = {"code": code, "message": "no"}
            asked.json({"jsonrpc": "2.0", "id": asked.message["id"], "error": error}, status)

        return answer

    server.on |= {"tools/call:count": refuse(-32602, 400), "ping": refuse(-32601, pong)}
    answer = await client.finish(client.call("count"))
    assert answer["error"] == {"code": -32602, "message": "no"}
    assert len(server.seen("tools/call:count")) == 2 and server.made == 1


async def test_a_session_that_is_lost_a_hundred_times_under_load(far, server):
    """Every call is served once, and no client is told."""
    clients = [await far.client() for _ in range(5)]
    served = 0

    async def use(client, number):
        nonlocal served
        while server.made < 101:
            assert await client.text("count")
            served += 1

    def has_gone_on(before):
        # With the last session the clients stop, which may be before three more calls.
        return server.made > before[0] and (server.made > 100 or server.count >= before[1] + 3)

    async def lose():
        while server.made < 101:
            before = (server.made, server.count)
            server.forget()
            await wait_until_async(partial(has_gone_on, before))

    await asyncio.gather(lose(), *(use(client, number) for number, client in enumerate(clients)))
    assert server.count == served and (await far.status())["restarts"] == 0
    assert not [m for client in clients for m in client.outbox.messages if "error" in m]


async def test_what_the_network_forgets_is_not_used_again(far, server, monkeypatch):
    """A proxy that stops forwarding what was quiet, and tells nobody."""
    monkeypatch.setattr(http_client, "KEEP_IDLE_S", 0.2)
    client = await far.client()
    assert await client.text("count") == "1"
    silent = list(server._open)
    await asyncio.sleep(0.3)  # longer than a connection is kept
    for writer in silent:
        writer.transport.pause_reading() if not writer.transport.is_closing() else None
    assert await client.text("count") == "2"


async def test_idle_connections_are_closed_when_the_machine_has_slept(far, server):
    client = await far.client()
    await client.text("echo", text="x")
    far.daemon.servers.remote_host.drop_idle()
    await wait_until_async(lambda: not server._open)
    assert await client.text("echo", text="y") == "y"


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_gateway_that_fails_once(far, server, status):
    client = await far.client()

    def fail(asked):
        server.on.clear()
        asked.reply(status, b"<html>SENTINEL</html>", "text/html")

    server.on["tools/call"] = fail
    assert await client.text("echo", text="x") == "x", "it may be repeated"
    server.on["tools/call"] = fail
    error = await client.error("count")
    assert (error["kind"], error["status"], error["reason"]) == ("connect_failed", status, "http")
    assert server.made == 1 and (await far.status())["state"] == "ready"


async def test_a_server_that_repeats_our_token_in_an_error(make, server):
    far = make(headers={"Authorization": "Bearer SENTINEL-token-1"})
    client = await far.client()

    def repeat(asked):
        said = f"bad request: authorization {asked.headers['authorization']}"
        asked.reply(400, said.encode(), "text/plain")

    server.on["tools/call"] = repeat
    said = str(await client.request("tools/call", name="count", arguments={}))
    assert "bad request: authorization Bearer ***" in said


@pytest.mark.parametrize("status", [400, 401, 404, 405, 406, 500, 501, 200])
async def test_a_get_that_is_not_answered_with_a_stream(far, server, status):
    server.on["GET"] = lambda asked: asked.reply(status, b"{}", "application/json")
    client = await far.client()
    for _ in range(3):
        assert await client.text("echo", text="x") == "x"
    assert len(server.seen("GET")) <= 3 and (await far.status())["state"] == "ready"


async def test_messages_that_nobody_asked_for_and_a_stream_that_breaks(far, server):
    server.has_stream = True
    client = await far.client()
    for number in range(2):
        stream = (await wait_until_async(lambda: server.streams))[0]
        server.tools.append({"name": f"new{number}", "inputSchema": {"type": "object"}})
        stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        name = f"new{number}"
        await wait_until_async(lambda name=name: any(tool.identity == name for tool in _tools(far)))
        stream.chunk(b"retry: 60\n\n")
        stream.cut()
        await wait_until_async(lambda stream=stream: stream not in server.streams)
    assert server.made == 1 and await client.text("echo", text="x") == "x"


def _tools(far):
    (upstream,) = far.daemon.servers.mux._state.all_upstreams()
    from mcpd.core.catalog.model import Kind

    listing = upstream.catalog.get(Kind.TOOLS)
    return [] if listing is None else listing.items


async def test_a_stream_is_resumed_where_it_broke(far, server):
    client = await far.client()

    def begin(asked):
        asked.begin_stream()
        asked.chunk(b"id: a:0\nretry: 50\ndata:\n\n")
        asked.cut()
        server.question = asked.message["id"]

    def resume(asked):
        if "last-event-id" not in asked.headers:
            asked.reply(405)
            return
        asked.begin_stream()
        asked.event({"jsonrpc": "2.0", "id": server.question, "result": text_of("resumed")}, "a:1")
        asked.end_stream()

    server.on |= {"tools/call:count": begin, "GET": resume}
    assert await client.text("count") == "resumed"
    assert [
        each.headers["last-event-id"]
        for each in server.seen("GET")
        if "last-event-id" in each.headers
    ] == ["a:0"]
    assert len(server.seen("tools/call:count")) == 1


async def test_refused_connections_say_so_and_it_comes_back(far, server):
    client = await far.client()
    assert await client.text("count") == "1"
    await server.stop()
    error = await client.error("count")
    assert (error["kind"], error["reason"]) == ("connect_failed", "refused")
    server.forget()
    await server.start()

    async def works():
        return "result" in await client.finish(client.call("echo", text="x"))

    for _ in range(50):
        if await works():
            break
    assert (await far.status())["state"] == "ready"
