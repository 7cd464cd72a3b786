"""Redirects, waits and pings."""

from __future__ import annotations

import pytest

from tests.support.far import Client
from tests.support.remoteserver import RemoteServer
from tests.support.waiting import wait_until_async


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_is_followed_once_and_remembered(make, server, status):
    def move(asked):
        if asked.target == "/old":
            asked.reply(status, Location="/mcp")
            return None
        return server.serve(asked)

    server.on["POST"] = move
    far = make(url=server.url.replace("/mcp", "/old"), headers={"X-Key": "kept"})
    client = await far.client()
    assert await client.text("echo", text="x") == "x"
    assert {each.headers["x-key"] for each in server.asked} == {"kept"}
    assert len([each for each in server.asked if each.target == "/old"]) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_nothing_goes_to_another_origin(make, server, status):
    other = await RemoteServer().start()
    server.on["POST"] = lambda asked: asked.reply(status, Location=other.url)
    far = make(auth={"type": "bearer", "token": "T0ken"})
    client = Client(far)
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    error = (await client.request("initialize", **hello))["error"]
    assert error["data"]["reason"] == "redirect" and f":{other.port}" in error["message"]
    assert not other.connections
    await other.stop()


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_would_make_a_get_of_a_message_is_not_followed(make, server, status):
    server.on["POST"] = lambda asked: (
        asked.reply(status, Location="/mcp") if asked.target == "/old" else server.serve(asked)
    )
    client = Client(make(url=server.url.replace("/mcp", "/old")))
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    error = (await client.request("initialize", **hello))["error"]
    assert error["data"]["reason"] == "redirect" and f"with {status}" in error["message"]
    assert {each.target for each in server.asked} == {"/old"}


async def test_redirects_have_an_end(make, server):
    server.on["POST"] = lambda asked: asked.reply(307, Location="/mcp")
    client = Client(make())
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    assert (await client.request("initialize", **hello))["error"]["data"]["reason"] == "redirect"


async def test_retry_after_is_waited_for_and_said(far, server):
    client = await far.client()

    def later(asked):
        server.on.clear()
        asked.reply(503, b"later", "text/plain", Retry_After="1")

    server.on["tools/call:count"] = later
    ident = client.call("count")
    await wait_until_async(lambda: server.seen("tools/call:count"))
    while "waits" not in (status := await far.status()):
        pass
    assert "503" in status["waits"] and len(server.seen("tools/call:count")) == 1
    assert "result" in await client.finish(ident)
    assert "waits" not in await far.status()


async def test_a_wait_ends_with_the_call(far, server):
    server.on["tools/call:count"] = lambda asked: asked.reply(429, Retry_After="60")
    client = await far.client()
    ident = client.call("count")
    await wait_until_async(lambda: server.seen("tools/call:count"))
    # Until the 429 has been read, the server may have served it and is told.
    while "waits" not in await far.status():
        pass
    client.send({"method": "notifications/cancelled", "params": {"requestId": ident}})
    assert await client.text("echo", text="x") == "x"
    assert not server.seen("notifications/cancelled"), "it was never served"


async def test_quiet_connections_are_kept_in_use(make, server):
    far = make(ping_interval=0.05)
    client = await far.client()
    await wait_until_async(lambda: len(server.seen("ping")) >= 3)
    assert await client.text("echo", text="x") == "x"
    assert (await far.status())["last_error"] is None


async def test_cookies_go_back_to_their_session(far, server):
    original = server.serve

    async def with_cookie(asked):
        if asked.rpc == "initialize":
            server.made += 1
            server.sessions.add("s")
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1"},
            }
            asked.result(result, **{"Mcp-Session-Id": "s", "Set-Cookie": "node=7; Path=/"})
        else:
            await original(asked)

    server.on["POST"] = with_cookie
    client = await far.client()
    await client.text("echo", text="x")
    assert {each.headers.get("cookie") for each in server.seen("tools/call")} == {"node=7"}
