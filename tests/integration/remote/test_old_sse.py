"""HTTP+SSE of 2024-11-05."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.far import Client
from tests.support.waiting import wait_until_async


class Old:
    """Makes a server one that has HTTP+SSE alone."""

    def __init__(self, server, address: str = "/messages?sid=1") -> None:
        self.server = server
        self.address = address
        self.streams: list = []
        server.on |= {"GET": self.open, "POST": self.post}
        for method in ("server/discover", "initialize"):
            server.on[method] = self.post

    async def open(self, asked) -> None:
        asked.begin_stream()
        asked.chunk(f"event: endpoint\r\ndata: {self.address}\r\n\r\n".encode())
        asked.is_over = True
        self.streams.append(asked)
        while not asked.writer.is_closing():
            await asyncio.sleep(0.01)

    def post(self, asked) -> None:
        if not asked.target.startswith("/messages"):
            asked.reply(405)
            return
        asked.reply(202, b"Accepted", "text/plain")
        if "id" not in asked.message:
            return
        result = {"tools": self.server.tools}
        if asked.rpc == "initialize":
            result = {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            }
        elif asked.rpc == "tools/call":
            if asked.params["name"] == "count":
                return
            result = {"content": [{"type": "text", "text": asked.params["arguments"]["text"]}]}
        self.streams[-1].chunk(
            b"data: "
            + json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": result}).encode()
            + b"\n\n"
        )


@pytest.mark.parametrize("transport", ["auto", "sse"])
async def test_it_is_found_or_told(make, server, transport):
    Old(server)
    far = make(transport=transport)
    client = await far.client()
    assert await client.text("echo", text="x") == "x"
    status = await far.status()
    assert (status["transport"], status["protocol_version"]) == ("sse", "2024-11-05")
    assert not [
        each for each in server.seen("server/discover") if each.target.startswith("/messages")
    ]


async def test_a_stream_that_breaks_is_opened_again(make, server):
    old = Old(server)
    far = make(transport="sse")
    client = await far.client()
    ident = client.call("count")
    await wait_until_async(lambda: server.seen("tools/call:count"))
    old.streams[-1].cut()
    answer = await client.finish(ident)
    assert answer["error"]["data"]["outcome_unknown"]
    assert await client.text("echo", text="x") == "x" and len(old.streams) == 2


async def test_messages_go_to_no_other_origin(make, server):
    Old(server, "http://127.0.0.2:9/messages")
    far = make(transport="sse")
    client = Client(far)
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    error = (await client.request("initialize", **hello))["error"]
    assert error["data"]["kind"] == "connect_failed" and "127.0.0.2:9" in error["message"]
    assert not server.seen("POST")


@pytest.mark.parametrize(
    "address",
    ["messages?sid=1", "/messages?sid=1", "./messages", "http://127.0.0.1:{port}/messages/1?sid=2"],
)
async def test_the_address_for_messages_may_be_relative(make, server, address):
    Old(server, address.format(port=server.port))
    client = await make(transport="sse", url=server.url.replace("/mcp", "/sse")).client()
    assert await client.text("echo", text="x") == "x"


async def test_an_address_for_messages_that_is_wrong_is_named_with_ours(make, server):
    Old(server, "/nowhere")
    far = make(transport="sse")
    client = Client(far)
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    said = (await client.request("initialize", **hello))["error"]["message"]
    assert f"{server.port}/nowhere" in said and server.url in said and "405" in said


async def test_a_transport_that_the_server_has_not_is_named(make, server):
    client = Client(make(transport="sse"))
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    error = (await client.request("initialize", **hello))["error"]
    assert "HTTP 405" in error["message"] and 'transport = "auto"' in str(error)


async def test_nothing_is_sent_before_the_address_is_known_and_answers_may_overtake(make, server):
    old, may_go_on = Old(server), asyncio.Event()
    plain_open, plain_post = old.open, old.post

    async def late(asked):
        await may_go_on.wait()
        await plain_open(asked)

    def overtaken(asked):
        reply, later = asked.reply, []
        asked.reply = lambda *args: later.append(args)
        plain_post(asked)
        asyncio.get_running_loop().call_later(0.02, lambda: [reply(*each) for each in later])

    server.on |= {"GET": late, "initialize": overtaken, "POST": overtaken}
    far = make(transport="sse")
    connecting = asyncio.create_task(far.client())
    await wait_until_async(lambda: server.seen("GET"))
    assert not server.seen("POST")
    may_go_on.set()
    assert await (await connecting).text("echo", text="x") == "x"
