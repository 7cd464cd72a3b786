"""Requests that stand alone."""

from __future__ import annotations

import asyncio
import json

import pytest

from mcpd.core.interface.commands import SessionState
from mcpd.listeners.http.core import Life
from mcpd.listeners.http.stateless import status_for_legacy, status_for_modern
from tests.support.asgi import (
    META,
    MODERN,
    FakeCore,
    Front,
    message,
    notification,
)
from tests.support.virtualtime import settle, virtual

CALL = message("tools/call", 7, name="echo", arguments={"where": "x"}, _meta=META)
HEADERS = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "echo"}
LISTEN = message("subscriptions/listen", 8, notifications={}, _meta=META)
SCHEMA = json.dumps({"properties": {"where": {"type": "string", "x-mcp-header": "Where"}}}).encode()


def front(**settings) -> Front:
    core = FakeCore()
    core.schemas["echo"] = b"{}"
    return Front(core, **settings)


async def call(made: Front, body=CALL, **more):
    return await made.ask("POST", "/mcp/one", body, **{**HEADERS, **more})


@pytest.mark.parametrize(
    ("code", "legacy", "modern"),
    [
        (-32700, 400, 400),
        (-32600, 400, 400),
        (-32602, 400, 400),
        (-32601, 200, 404),
        (-32002, 404, 200),
        (-32020, 200, 400),
        (-32022, 200, 400),
        (-32603, 200, 200),
        (0, 200, 200),
    ],
)
def test_statuses_of_errors(code, legacy, modern):
    assert (status_for_legacy(code), status_for_modern(code)) == (legacy, modern)


@virtual
async def test_a_request_has_a_session_for_itself_that_ends_with_it():
    made = front()
    for version, expected in ((None, "2025-03-26"), ("2025-06-18", "2025-06-18")):
        asked = await made.ask("POST", "/mcp/one", message("ping", 3), mcp_protocol_version=version)
        session = made.core.newest
        made.core.answer(session, 3)
        await asked.wait()
        assert asked.json()["id"] == 3
        assert made.core.released[-1] == session
        assert made.core.opened[-1] == ("ada", "one", SessionState(version=expected), Life.REQUEST)
    made.core.close(session, "released")
    assert session not in made.stateless._carriers


@virtual
async def test_two_requests_with_one_id_get_their_own_answers():
    made = front()
    first = await made.ask("POST", "/mcp/one", message("ping", 1))
    one = made.core.newest
    second = await made.ask("POST", "/mcp/one", message("ping", 1))
    made.core.answer(made.core.newest, 1, which=2)
    made.core.answer(one, 1, which=1)
    await settle()
    assert [each.json()["result"]["which"] for each in (first, second)] == [1, 2]


@virtual
async def test_what_belongs_to_no_request_is_for_nobody():
    made = front()
    asked = await made.ask("POST", "/mcp/one", message("ping", 1))
    made.core.tell(made.core.newest, "unasked")
    made.core.tell(made.core.newest, "another's", 2)
    await settle()
    assert not asked.status
    made.core.tell(made.core.newest, "mine", 1)
    await settle()
    assert [each["params"]["text"] for each in asked.messages] == ["mine"]


@virtual
async def test_notifications_and_answers_are_accepted_and_arrays_are_not():
    made = front()
    for body in (
        notification("notifications/initialized"),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ):
        assert (await made.ask("POST", "/mcp/one", body)).status == 202
    refused = await made.ask("POST", "/mcp/one", [message("ping")])
    assert (refused.status, refused.json()["error"]["code"]) == (400, -32600)
    assert not made.core.opened


@virtual
async def test_scripts_must_take_both_types():
    made = front()
    for accept in ("application/json", "text/event-stream", "text/html"):
        refused = await made.ask("POST", "/mcp/one", message("ping"), accept=accept)
        assert refused.status == 400
        assert refused.json()["error"]["data"]["accept"]
    assert not made.core.opened


@pytest.mark.parametrize("how", ["lose", "half_close"])
@virtual
async def test_a_client_that_leaves_cancels_its_request(how):
    made = front()
    asked = await call(made)
    session = made.core.newest
    getattr(asked.link, how)()
    await settle()
    assert asked.is_over
    method, params = (made.core.taken[-1][1][name] for name in ("method", "params"))
    assert (method, params["requestId"]) == ("notifications/cancelled", 7)
    assert made.core.released == [session]
    made.core.answer(session, 7)
    assert made.memory.kept_bytes == 0


@virtual
async def test_a_client_that_had_left_before_cancels_at_once():
    made = front()
    asked = made.send("POST", "/mcp/one", CALL, **HEADERS)
    asked.lose()
    await settle()
    assert asked.is_over
    assert made.core.methods(made.core.newest) == ["tools/call", "notifications/cancelled"]


@virtual
async def test_a_client_that_leaves_within_its_stream_cancels():
    made = front()
    asked = await call(made)
    made.core.tell(made.core.newest, "a", 7)
    await settle()
    asked.lose()
    await settle()
    assert asked.is_over
    assert made.core.methods(made.core.newest)[-1] == "notifications/cancelled"


@virtual
async def test_a_session_that_the_core_ends_gives_no_answer():
    made = front()
    asked = await call(made)
    made.core.carriers[made.core.newest].closed("over")
    await asked.wait()
    assert asked.status == 202


# -- the modern revision ---------------------------------------------------------------------------


@virtual
async def test_a_modern_request_is_answered_with_the_status_of_its_error():
    made = front()
    asked = await call(made)
    made.core.fail(made.core.newest, 7, -32601)
    await settle()
    assert asked.status == 404
    assert made.core.opened == [("ada", "one", None, Life.REQUEST)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"mcp_protocol_version": "2099-01-01"}, -32020),
        ({"mcp_method": "tools/list"}, -32020),
        ({"mcp_method": None}, -32020),
        ({"mcp_name": None}, -32020),
        ({"mcp_name": "=?base64?eA==?="}, -32020),
        ({"mcp_method": ["tools/call", "tools/call"]}, -32020),
        ({"body": message("tools/call", 7, name="echo")}, -32602),
        ({"body": message("tools/call", 7, _meta={next(iter(META)): MODERN})}, -32602),
        ({"body": message("tools/call", 7, _meta={**META, next(iter(META)): 5})}, -32602),
        ({"body": message("tools/call", 7, _meta=5)}, -32602),
        ({"body": [CALL]}, -32600),
        ({"body": {"jsonrpc": "2.0", "id": 1, "result": {}}}, -32600),
    ],
)
@virtual
async def test_the_first_rule_that_is_broken_is_named(change, code):
    made = front()
    refused = await call(made, **change)
    assert (refused.status, refused.json()["error"]["code"]) == (400, code)
    assert not made.core.opened
    assert code == -32600 or refused.json()["id"] == 7


@virtual
async def test_a_modern_body_needs_the_modern_header():
    made = front()
    for version in (None, "2025-06-18"):
        refused = await call(made, mcp_protocol_version=version)
        assert (refused.status, refused.json()["error"]["code"]) == (400, -32020)


@virtual
async def test_a_notification_of_a_stranger_does_nothing():
    made = front()
    body = notification("notifications/cancelled", requestId=7)
    assert (await call(made, body)).status == 202
    assert not made.core.taken


@virtual
async def test_arguments_are_repeated_in_headers_where_the_tool_wants_that():
    made = front()
    made.core.schemas["echo"] = SCHEMA
    assert (await call(made)).status == 400
    asked = await call(made, mcp_param_where="x")
    assert not asked.status and made.core.taken


@virtual
async def test_the_tools_of_a_server_that_never_ran_are_listed_first():
    made = front()
    del made.core.schemas["echo"]
    body = message("tools/call", 7, **{**CALL["params"], "_meta": {**META, "progressToken": 5}})
    asked = await call(made, body)
    listing = made.core.newest
    assert made.core.methods(listing) == ["tools/list"]
    assert made.core.taken[-1][1]["params"]["_meta"] == META, "the progress is not the list's"
    made.core.schemas["echo"] = SCHEMA
    made.core.answer(listing, 1)
    await settle()
    assert asked.status == 400
    assert made.core.closed == [(listing, "its tools are listed")]
    assert not made.stateless._carriers


@virtual
async def test_a_listen_is_a_stream_at_once_and_takes_no_json():
    made = front()
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "subscriptions/listen"}
    asked = await made.ask("POST", "/mcp/one", LISTEN, **headers)
    assert asked.headers["content-type"].startswith("text/event-stream")
    refused = await made.ask("POST", "/mcp/one", LISTEN, accept="application/json", **headers)
    assert refused.status == 406
    asked.lose()
    await settle()
    assert made.core.methods(made.core.newest)[-1] == "notifications/cancelled"


@virtual
async def test_either_type_will_do():
    made = front()
    asked = await call(made, accept="application/json")
    made.core.tell(made.core.newest, "not for JSON", 7)
    made.core.answer(made.core.newest, 7)
    await settle()
    assert asked.json()["id"] == 7
    assert (await call(made, accept="text/event-stream")).messages == []
    assert (await call(made, accept="text/html")).status == 406


@virtual
async def test_a_retry_goes_to_the_session_of_the_parked_call():
    made = front()
    asked = await call(made)
    session = made.core.newest
    made.core.handles["handle"] = session
    made.core.answer(session, 7, resultType="input_required")
    await asked.wait()
    retry = message("tools/call", 9, **CALL["params"], requestState="handle", inputResponses={})
    again = await call(made, retry)
    assert made.core.newest == session and made.core.taken[-1][0] == session
    made.core.answer(session, 9)
    await settle()
    assert again.json()["id"] == 9
    assert made.core.released == [session, session]


@virtual
async def test_two_retries_at_once_with_one_id_do_not_share_an_answer():
    made = front()
    await call(made)
    session = made.core.newest
    made.core.handles["handle"] = session
    retry = message("tools/call", 7, **CALL["params"], requestState="handle", inputResponses={})
    await call(made, retry)
    assert made.core.newest != session


@virtual
async def test_a_slow_answer_becomes_a_stream():
    made = front(json_wait=1)
    asked = await call(made)
    await asyncio.sleep(2)
    assert asked.headers["content-type"].startswith("text/event-stream")
    made.core.answer(made.core.newest, 7)
    await asked.wait()
    assert asked.events == [(None, {"jsonrpc": "2.0", "id": 7, "result": {}})]
    made.keepalive.close()
