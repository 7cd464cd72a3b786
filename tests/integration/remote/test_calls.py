"""Calls to a server that is reached by URL."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import pytest

from tests.support.far import Client
from tests.support.remoteserver import META, MODERN, text_of
from tests.support.waiting import wait_until_async


async def test_one_session_for_all_clients_and_no_connection_more_than_needed(far, server):
    one, two = await far.client(), await far.client()
    assert await one.text("echo", text="a") == "a" and await two.text("echo", text="b") == "b"
    assert server.made == 1 and server.connections <= 3
    status = await far.status()
    assert (status["state"], status["transport"], status["pid"], status["era"]) == (
        "ready",
        "http",
        None,
        "legacy",
    )
    calls = server.seen("tools/call")
    assert {each.headers["accept"] for each in calls} == {"application/json, text/event-stream"}
    assert {each.headers["mcp-protocol-version"] for each in calls} == {"2025-11-25"}
    assert {each.session for each in calls} == {"session-1"}


async def test_what_headers_repeat_of_a_modern_request(far, server):
    server.era = "modern"
    server.tools[0]["inputSchema"] = {
        "type": "object",
        "properties": {"text": {"type": "string", "x-mcp-header": "Text"}},
    }
    server.tools.append(
        {
            "name": "bad",
            "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "number", "x-mcp-header": "A"}},
            },
        }
    )
    client = await far.client()
    listed = await client.request("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["echo", "count"]
    assert await client.text("echo", text="grün") == "grün"
    (call,) = server.seen("tools/call")
    wanted = {
        "mcp-method": "tools/call",
        "mcp-name": "echo",
        "mcp-param-text": "=?base64?Z3LDvG4=?=",
        "mcp-protocol-version": MODERN,
    }
    assert wanted.items() <= call.headers.items() and "mcp-session-id" not in call.headers
    assert call.params["_meta"][META + "protocolVersion"] == MODERN


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_headers_name_the_task(far, server, method):
    """
    As the extension for tasks has it (SEP-2663); servers refuse a request without it.
    """
    server.era = "modern"
    extensions = {META + "tasks": {}}
    said = {"supportedVersions": [MODERN], "resultType": "complete"}
    capabilities = {"extensions": extensions}
    server.on["server/discover"] = lambda asked: asked.result(
        {**said, "capabilities": capabilities}
    )
    server.on[method] = lambda asked: asked.result({"resultType": "complete"})
    client = Client(far)
    await client.request("mcpd/attach", server="far")
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities}
    await client.request("server/discover", _meta=meta)
    answer = await client.request(method, taskId="grün 7", _meta=meta)
    assert "result" in answer, answer
    (asked,) = server.seen(method)
    assert asked.headers["mcp-name"] == "=?base64?Z3LDvG4gNw==?="


async def test_a_modern_request_is_cancelled_by_closing_its_response(far, server):
    server.era, gone = "modern", asyncio.Event()

    async def hang(asked):
        asked.begin_stream()
        while not asked.writer.is_closing() and not asked.writer.transport.is_closing():
            asked.chunk(b": there?\n\n")
            await asyncio.sleep(0.01)
        gone.set()

    server.on["tools/call:count"] = hang
    client = await far.client()
    ident = client.call("count")
    await wait_until_async(lambda: server.seen("tools/call:count"))
    client.send({"method": "notifications/cancelled", "params": {"requestId": ident}})
    await asyncio.wait_for(gone.wait(), 5)
    assert not server.seen("notifications/cancelled")


async def test_a_legacy_request_is_cancelled_by_a_notification(far, server):
    server.on["tools/call:count"] = lambda asked: asyncio.sleep(30)
    client = await far.client()
    ident = client.call("count")
    (call,) = await wait_until_async(lambda: server.seen("tools/call:count"))
    client.send({"method": "notifications/cancelled", "params": {"requestId": ident}})
    (sent,) = await wait_until_async(lambda: server.seen("notifications/cancelled"))
    assert sent.params["requestId"] == call.message["id"]


async def test_a_request_that_is_cancelled_at_once_leaves_nothing(far, server):
    """
    Both come in one piece, so that its task has not begun when it is cancelled.
    """
    client = await far.client()
    assert await client.text("echo", text="hi") == "hi"
    (channel,) = far.daemon.servers.dispatcher.channels.values()
    await wait_until_async(lambda: not channel.answering())
    before = channel.unsent_bytes
    for _ in range(20):
        ident = client.call("echo", text="x" * 1000)
        client.send({"method": "notifications/cancelled", "params": {"requestId": ident}})
    assert await client.text("echo", text="hi") == "hi"
    await wait_until_async(lambda: channel.unsent_bytes == before)
    assert len(server.seen("tools/call:echo")) == 2 and not channel.unsent()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_compressed_answers(far, server, encoding):
    def answer(asked):
        body = json.dumps(
            {"jsonrpc": "2.0", "id": asked.message["id"], "result": text_of("small")}
        ).encode()
        packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
        asked.reply(200, packed, "application/json", Content_Encoding=encoding)

    server.on["tools/call:count"] = answer
    client = await far.client()
    if encoding == "br":
        assert (await client.error("count"))["kind"] == "connect_failed"
    else:
        assert await client.text("count") == "small"


async def test_a_bomb_hurts_its_own_call_alone(make, server, tmp_path):
    far = make()
    bomb = gzip.compress(b" " * (200 << 20))
    server.on["tools/call:count"] = lambda asked: asked.reply(
        200, bomb, "application/json", Content_Encoding="gzip"
    )
    client = await far.client()
    assert (await client.error("count"))["kind"] == "message_too_large"
    assert await client.text("echo", text="y") == "y"


async def test_an_answer_over_several_lines_is_one_line_for_clients(far, server):
    def pretty(asked):
        message = {"jsonrpc": "2.0", "id": asked.message["id"], "result": text_of("x")}
        asked.reply(
            200, json.dumps(message, indent=2).replace("\n", "\r\n").encode(), "application/json"
        )

    server.on["tools/call:count"] = pretty
    assert await (await far.client()).text("count") == "x"


async def test_a_stop_deletes_the_session(make, server):
    far = make()
    await (await far.client()).text("echo", text="x")
    await far.daemon.clients.drain.run(0.0)
    assert server.deleted == ["session-1"]


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ({"type": "bearer", "token": "T0ken"}, "authorization", "Bearer T0ken"),
        ({"type": "api-key", "key": "K3y", "header": "x-key"}, "x-key", "K3y"),
        ({"type": "basic", "username": "ada", "password": "l0ve"}, "authorization", "Basic YWRhOmwwdmU="),
    ],
)  # fmt: skip
async def test_credentials_of_the_entry(make, server, auth, header, value):
    far = make(auth=auth, headers={"X-Team": "blue"})
    await (await far.client()).text("echo", text="x")
    assert {each.headers.get(header) for each in server.asked} == {value}
    assert {each.headers.get("x-team") for each in server.asked} == {"blue"}
    assert (await far.status())["auth"] == auth["type"]


async def test_a_token_that_is_refused_is_not_tried_again(make, server):
    far = make(auth={"type": "bearer", "token": "T0ken"})
    server.on["POST"] = lambda asked: asked.reply(401, WWW_Authenticate="Bearer")
    client = Client(far)
    await client.request("mcpd/attach", server="far")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    for _ in range(3):
        answer = await client.request("initialize", **hello)
        assert answer["error"]["data"]["kind"] == "unauthorized"
    assert (await far.status())["state"] == "failed" and len(server.asked) == 1


async def test_what_is_forbidden_fails_alone(far, server):
    server.on["tools/call:count"] = lambda asked: asked.reply(
        403, WWW_Authenticate='Bearer error="insufficient_scope", scope="a b"'
    )
    client = await far.client()
    error = await client.error("count")
    assert (error["kind"], error["scopes"]) == ("forbidden", ["a", "b"])
    assert await client.text("echo", text="x") == "x"
