"""Sessions of the handshake revisions over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from mcpd.core.interface.commands import SessionState
from mcpd.listeners.http.core import Life
from mcpd.listeners.http.sessions import digest_of
from tests.support.asgi import (
    LIFE,
    STREAM,
    FakeCore,
    Front,
    message,
    notification,
)
from tests.support.virtualtime import settle, virtual

HELLO = message("initialize", 0, protocolVersion="2025-11-25", capabilities={})


@virtual
async def test_initialize_opens_a_session_that_is_saved_before_it_is_answered():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    assert core.opened == [("ada", "one", None, Life.KEPT)]
    state = front.saved[digest_of(session.ident)]
    assert state is not None and state.version == "2025-11-25"
    assert session.ident not in repr(front.saved)
    front.close()


@virtual
async def test_a_failed_initialize_leaves_no_session():
    core = FakeCore()
    core.answers_initialize = False
    front = Front(core)
    asked = await front.ask("POST", "/mcp/one", HELLO)
    core.fail(core.newest, 0, -32602)
    await settle()
    assert asked.status == 200, "the SDKs' clients read errors there"
    assert not len(front.legacy.sessions) and core.closed
    front.close()


@virtual
async def test_an_initialize_that_takes_nothing_leaves_no_session():
    core = FakeCore()
    front = Front(core)
    assert (await front.ask("POST", "/mcp/one", HELLO, accept="text/html")).status == 406
    assert not len(front.legacy.sessions) and core.closed
    front.close()


@virtual
async def test_a_session_is_shown_with_its_own_token_on_its_own_endpoint():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    for wrong in ({"token": "bob"}, {"mcp_session_id": session.ident + "x"}):
        assert (await session.post(message("ping"), **wrong)).status == 404
        assert (await session.get(**wrong)).status == 404
        assert (await session.delete(**wrong)).status == 404
    session.path = "/mcp"
    assert (await session.post(message("ping"))).status == 404
    assert core.methods(core.newest) == ["initialize"]
    front.close()


@virtual
async def test_initialize_with_an_ended_session_opens_another_and_with_a_living_one_is_refused():
    front = Front(FakeCore())
    session = await front.session()
    assert (await session.post(HELLO)).status == 400
    assert (await session.delete()).status == 204
    again = await session.post(HELLO)
    assert again.status == 200
    assert again.headers["mcp-session-id"] != session.ident
    front.close()


@virtual
async def test_a_duplicate_in_flight_is_refused_and_the_first_goes_on():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    first = await session.post(message("a", 5))
    second = await session.post(message("b", 5))
    assert (second.status, second.json()["id"]) == (400, 5)
    assert not (await session.post(message("b", "5"))).status
    core.answer(core.newest, 5)
    await settle()
    assert first.json()["id"] == 5
    assert not (await session.post(message("b", 5))).status
    front.close()


@virtual
async def test_progress_and_questions_come_on_the_stream_of_their_request():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    unasked = await session.get()
    asked = await session.post(message("a", 5))
    core.tell(core.newest, "progress", 5)
    core.tell(core.newest, "unasked")
    core.answer(core.newest, 5)
    await settle()
    assert asked.events[0] == (f"{LIFE}.2.1.NQ", None), "it is primed"
    assert [each.get("id") for each in asked.messages] == [None, 5]
    assert [each["params"]["text"] for each in unasked.messages] == ["unasked"]
    assert asked.is_complete and not unasked.is_complete
    unasked.lose()
    front.close()


@virtual
async def test_clients_of_earlier_revisions_get_no_event_without_data():
    core = FakeCore()
    front = Front(core)
    session = await front.session(version="2025-06-18")
    unasked = await session.get()
    asked = await session.post(message("a", 5), accept=STREAM)
    assert (unasked.status, unasked.body, asked.body) == (200, b"", b"")
    unasked.lose()
    front.close()


@virtual
async def test_a_lost_stream_is_no_cancellation_and_can_be_resumed():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    asked = await session.post(message("a", 5))
    core.tell(core.newest, "1", 5)
    await settle()
    core.tell(core.newest, "2", 5)
    asked.lose()
    await settle()
    assert asked.is_over
    core.tell(core.newest, "3", 5)
    assert core.methods(core.newest) == ["initialize", "a"]
    last = asked.last_id
    again = await session.get(last)
    texts = [each["params"]["text"] for each in asked.messages + again.messages]
    assert texts == ["1", "2", "3"]
    core.answer(core.newest, 5)
    await settle()
    assert again.is_complete and again.messages[-1]["id"] == 5
    repeated = await session.get(last)
    assert repeated.body == again.body and repeated.is_complete
    nothing = await session.get(again.last_id)
    assert nothing.is_complete and not nothing.body
    front.close()


@virtual
async def test_a_response_to_a_client_that_left_before_its_stream_began_keeps_nothing():
    """
    It has no event id to come back with.
    """
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    for number in range(50):
        asked = await session.post(message("a", number))
        asked.lose()
        await settle()
        assert (await session.post(message("b", number))).status == 400, "it is in flight still"
        core.answer(core.newest, number, text="x" * 10_000)
    assert front.memory.kept_bytes == 0
    front.close()


@virtual
async def test_a_second_get_replaces_the_first_and_tells_it_when_to_come_back():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    first = await session.get()
    second = await session.get()
    assert first.is_complete and first.body.endswith(b"retry: 1000\n\n")
    core.tell(core.newest, "a")
    await settle()
    assert (len(first.messages), len(second.messages)) == (0, 1)
    second.link.half_close()
    await settle()
    assert second.is_over
    front.close()


@virtual
async def test_what_is_not_asked_for_is_kept_while_there_is_no_stream():
    core = FakeCore()
    front = Front(core, replay_events=2)
    session = await front.session()
    for text in "abc":
        core.tell(core.newest, text)
    stream = await session.get()
    assert [each["params"]["text"] for each in stream.messages] == ["b", "c"]
    stream.lose()
    front.close()


@virtual
async def test_an_event_that_is_not_held_is_unknown_and_a_fresh_stream_works():
    core = FakeCore()
    front = Front(core, replay_events=1)
    session = await front.session()
    stream = await session.get()
    for text in "abc":
        core.tell(core.newest, text)
    for last in ("x", "", f"{LIFE}.0.1", f"{LIFE}.9.1", f"{LIFE}.0.9", "9" * 5000):
        assert (await session.get(last)).status == 404
    assert not stream.is_complete, "nobody has replaced it"
    fresh = await session.get()
    assert fresh.status == 200 and stream.is_complete
    fresh.lose()
    front.close()


@virtual
async def test_a_stream_needs_a_client_that_takes_one():
    front = Front(FakeCore())
    session = await front.session()
    assert (await session.get(accept="application/json")).status == 406
    front.close()


@virtual
async def test_a_cancelled_request_ends_without_a_response():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    asked = await session.post(message("a", 5))
    streaming = await session.post(message("a", 6), accept=STREAM)
    for number in (5, 6, 7):
        done = await session.post(notification("notifications/cancelled", requestId=number))
        assert done.status == 202
    assert asked.status == 202
    assert streaming.is_complete and not streaming.messages
    front.close()


@pytest.mark.parametrize(
    "params", ["5", "[]", "null", "{}", '{"requestId":null}', '{"requestId":[1]}']
)
@virtual
async def test_a_cancellation_of_nothing_is_passed_on(params):
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":%b}' % params.encode()
    assert (await session.post(body)).status == 202
    bare = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    assert (await session.post(bare)).status == 202
    assert len(core.taken) == 3
    front.close()


# -- arrays ----------------------------------------------------------------------------------------


@virtual
async def test_an_array_has_one_stream():
    core = FakeCore()
    front = Front(core)
    session = await front.session(version="2025-03-26")
    body = [message("a", 1), notification("n"), message("b", 2)]
    asked = await session.post(body)
    assert core.taken[-1][1] == body
    core.tell(core.newest, "progress", 2)
    core.say(core.newest, b"[1,2,3]\n", 1, is_response=True)
    await settle()
    assert asked.is_complete and asked.body.count(b"data: ") == 2
    assert not next(iter(front.legacy.sessions)).is_in_use
    front.close()


@virtual
async def test_one_request_of_an_array_is_cancelled_and_the_others_are_answered():
    core = FakeCore()
    front = Front(core)
    session = await front.session(version="2025-03-26")
    asked = await session.post([message("a", 1), message("b", 2)])
    await session.post(notification("notifications/cancelled", requestId=1))
    assert not asked.status
    core.say(core.newest, b'[{"id":2}]\n', 1, is_response=True)
    await settle()
    assert (asked.status, asked.body) == (200, b'[{"id":2}]\n')
    front.close()


@pytest.mark.parametrize("wrong", [1, [], [message("c", 3)], {"id": 3, "jsonrpc": "1.0"}])
@virtual
async def test_nothing_of_an_array_with_an_element_that_is_no_message_is_served(wrong):
    core = FakeCore()
    front = Front(core)
    session = await front.session(version="2025-03-26")
    taken = len(core.taken)
    for body in ([wrong], [message("a", 1), wrong], [wrong, notification("n")]):
        assert (await session.post(body)).status == 400
    assert len(core.taken) == taken
    front.close()


@virtual
async def test_an_array_in_which_nothing_is_asked_is_accepted():
    core = FakeCore()
    front = Front(core)
    session = await front.session(version="2025-03-26")
    assert (
        await session.post([notification("n"), {"jsonrpc": "2.0", "id": 1, "result": {}}])
    ).status == 202
    asked = await session.post([message("a", 1)])
    assert (await session.post([message("b", 2), message("a", 1)])).status == 400
    assert not asked.status
    front.close()


@virtual
async def test_other_revisions_have_no_arrays():
    core = FakeCore()
    front = Front(core)
    for version in ("2024-11-05", "2025-06-18", "2025-11-25"):
        session = await front.session(version=version)
        assert (await session.post([message("a", 1)])).status == 400
    front.close()


# -- the life of a session -------------------------------------------------------------------------


@virtual
async def test_delete_ends_a_session_with_all_that_is_open():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    asked, stream = await session.post(message("a", 5)), await session.get()
    core.tell(core.newest, "x" * 1000, 5)
    deleted = await session.delete()
    assert (deleted.status, deleted.body, "content-length" in deleted.headers) == (204, b"", False)
    assert asked.is_complete and stream.is_complete
    assert core.closed[-1][1] == "its client ended it"
    assert not front.saved and front.memory.kept_bytes == 0
    assert (await session.delete()).status == 404
    front.close()


@virtual
async def test_an_idle_session_is_closed_and_one_in_use_is_not():
    core = FakeCore()
    front = Front(core, session_idle=100)
    idle = await front.session()
    streaming = await front.session()
    stream = await streaming.get()
    waiting = await front.session()
    asked = await waiting.post(message("a", 5))
    asked.lose()
    session = core.newest
    await asyncio.sleep(1000)
    assert (await idle.post(message("a"))).status == 404
    assert not (await waiting.post(message("b", 6))).status, "its request is in flight"
    core.answer(session, 5)
    core.answer(session, 6)
    await asyncio.sleep(60)
    assert (await waiting.post(notification("n"))).status == 202, "it was answered just now"
    await asyncio.sleep(200)
    assert (await waiting.post(notification("n"))).status == 404
    stream.lose()
    await asyncio.sleep(200)
    assert not len(front.legacy.sessions)
    front.close()


@virtual
async def test_no_limit_on_idleness_closes_none():
    front = Front(FakeCore(), session_idle=0)
    session = await front.session()
    await asyncio.sleep(100_000)
    assert (await session.post(notification("n"))).status == 202
    front.close()


@virtual
async def test_a_session_makes_room_for_another_unless_all_are_in_use():
    front = Front(FakeCore(), max_sessions=2)
    first, second = await front.session(), await front.session()
    streams = [await second.get()]
    third = await front.session()
    assert (await first.post(notification("n"))).status == 404
    streams.append(await third.get())
    refused = await front.ask("POST", "/mcp/one", HELLO)
    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
    for stream in streams:
        stream.lose()
    front.close()


@virtual
async def test_an_ended_token_takes_its_sessions_with_it():
    front = Front(FakeCore())
    mine, other = await front.session(), await front.session(token="bob")
    stream = await mine.get()
    front.legacy.end_of_token("ada")
    await settle()
    assert stream.is_complete
    assert (await mine.post(notification("n"))).status == 404
    assert (await other.post(notification("n"))).status == 202
    front.close()


@virtual
async def test_a_drain_ends_streams_and_sessions_go_on():
    core = FakeCore()
    front = Front(core)
    session = await front.session()
    stream, asked = await session.get(), await session.post(message("a", 5), accept=STREAM)
    front.legacy.drain(unasked_only=True)
    await settle()
    assert stream.body.endswith(b"retry: 1000\n\n") and stream.is_complete
    assert not asked.is_complete
    front.legacy.drain()
    await settle()
    assert asked.body.endswith(b"retry: 1000\n\n") and asked.is_complete
    front.legacy.let_go("the daemon ends")
    assert core.closed and front.saved
    front.close()


@virtual
async def test_a_session_of_an_earlier_daemon_is_opened_at_its_first_request():
    core = FakeCore()
    front = Front(core)
    restored = front.legacy.new(digest_of("theirs"), "ada", "one")
    restored.state, restored.is_restored = SessionState(version="2025-11-25"), True
    front.legacy.restore(restored)
    assert not core.opened
    headers = {"mcp_session_id": "theirs", "accept": STREAM, "last_event_id": "89abcdef.4.7.NQ"}
    lost = await front.ask("GET", "/mcp/one", **headers)
    assert core.opened == [("ada", "one", restored.state, Life.KEPT)]
    assert lost.is_complete and lost.messages[0]["id"] == 5
    assert lost.messages[0]["error"]["data"]["kind"] == "outcome_unknown"
    await front.ask("POST", "/mcp/one", notification("n"), mcp_session_id="theirs")
    assert len(core.opened) == 1
    front.close()


@virtual
async def test_an_outbox_that_overflows_ends_the_stream_and_not_the_session():
    core = FakeCore()
    front = Front(core, max_outbox_bytes=1000)
    session = await front.session()
    stream = await session.get()
    stream.reads.clear()
    for _ in range(50):
        core.tell(core.newest, "x" * 100)
        await settle()
    stream.reads.set()
    await settle()
    assert stream.is_complete
    assert (await session.post(notification("n"))).status == 202
    front.close()
