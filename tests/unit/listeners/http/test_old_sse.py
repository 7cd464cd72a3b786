"""HTTP+SSE of 2024-11-05."""

from __future__ import annotations

from mcpd.listeners.http.core import Life
from tests.support.asgi import STREAM, Exchanged, FakeCore, Front, message, notification, result
from tests.support.virtualtime import settle, virtual


def announced(stream: Exchanged) -> str:
    """Return the address that a stream names first."""
    head, data, *_ = stream.body.split(b"\n")
    assert head == b"event: endpoint"
    return data.removeprefix(b"data: ").decode()


async def opened(front: Front, path: str = "/sse/one", **more) -> Exchanged:
    return await front.ask("GET", path, accept=STREAM, **more)


@virtual
async def test_a_stream_names_its_address_and_carries_every_answer():
    core = FakeCore()
    front = Front(core)
    stream = await opened(front)
    assert core.opened == [("ada", "one", None, Life.STREAM)]
    assert stream.headers["content-type"].startswith(STREAM)
    posted = await front.ask("POST", announced(stream), message("ping", 7))
    assert (posted.status, posted.body) == (202, b"")
    core.answer(core.newest, 7)
    core.tell(core.newest, "a")
    await settle()
    assert [each.get("id") for each in stream.messages] == [7, None]
    assert all(ident is None for ident, _ in stream.events), "it cannot be resumed"


@virtual
async def test_it_ends_with_its_stream():
    core = FakeCore()
    front = Front(core)
    stream = await opened(front, "/sse")
    session, address = core.newest, announced(stream)
    stream.lose()
    await settle()
    assert core.closed == [(session, "its client hung up")]
    assert (await front.ask("POST", address, message("ping"))).status == 404
    assert front.memory.kept_bytes == 0


@virtual
async def test_a_half_closed_stream_is_a_lost_one():
    core = FakeCore()
    stream = await opened(Front(core))
    stream.link.half_close()
    await settle()
    assert stream.is_over and core.closed


@virtual
async def test_an_address_belongs_to_its_token():
    core = FakeCore()
    front = Front(core)
    address = announced(await opened(front))
    for token in ("bob", "ada"):
        answer = await front.ask("POST", address, message("ping"), token=token)
        assert answer.status == (202 if token == "ada" else 404)
    answer = await front.ask("POST", "/messages/never-given", message("ping"))
    assert answer.json()["error"]["code"] == -32600


@virtual
async def test_what_is_no_message_is_refused_on_the_spot():
    core = FakeCore()
    front = Front(core)
    address = announced(await opened(front))
    for body, code in ((b"{", -32700), (b"5", -32600), (b'{"id":1}', -32600)):
        answer = await front.ask("POST", address, body)
        assert (answer.status, answer.json()["error"]["code"]) == (400, code)
    answer = await front.ask("POST", address, b"", content_type="text/plain")
    assert answer.status == 415
    assert not core.taken


@virtual
async def test_notifications_and_arrays_are_passed_on():
    core = FakeCore()
    front = Front(core)
    address = announced(await opened(front))
    await front.ask("POST", address, notification("notifications/initialized"))
    await front.ask("POST", address, [message("ping")])
    assert [said for _, said in core.taken] == [
        notification("notifications/initialized"),
        [message("ping")],
    ]


@virtual
async def test_a_session_that_the_core_ends_is_over():
    core = FakeCore()
    stream = await opened(Front(core))
    core.carriers[core.newest].closed("its token was revoked")
    await settle()
    assert stream.is_complete


@virtual
async def test_a_drain_says_when_to_come_back():
    core = FakeCore()
    front = Front(core)
    stream = await opened(front)
    core.answer(core.newest, 1)
    front.old.drain()
    await settle()
    assert stream.body.endswith(b"retry: 1000\n\n")
    assert len(stream.messages) == 1
    assert stream.is_complete


@virtual
async def test_a_client_that_reads_nothing_is_given_up():
    core = FakeCore()
    front = Front(core, max_outbox_bytes=1000)
    stream = await opened(front)
    stream.reads.clear()
    for _ in range(100):
        core.say(core.newest, result(1, text="x" * 100))
        await settle()
    stream.reads.set()
    await settle()
    assert stream.is_over
    assert core.closed
    assert front.memory.kept_bytes == 0


@virtual
async def test_a_client_that_takes_no_stream_gets_none():
    core = FakeCore()
    assert (await Front(core).ask("GET", "/sse", accept="application/json")).status == 406
    assert not core.opened
