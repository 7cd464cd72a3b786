"""What one peer can make many or large of, and what happens over each bound."""

from __future__ import annotations

import contextlib
import gc
import json
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from mcpd.core.interface.entries import Settings
from mcpd.core.interface.failures import MOST_FOLLOWED
from mcpd.core.mcp import modern_meta
from mcpd.core.mcp.versions import NEWEST_MODERN
from mcpd.core.mux.mux import Mux
from mcpd.core.questions.questions import MOST_OF_A_PROCESS
from mcpd.core.requests.given_up import MOST_GIVEN_UP
from tests.unit.core.mux.world import World

MIB = 1 << 20
MOST = 16 * MIB
BIG = "x" * MIB
CANCEL = '>> %d {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'


class Bounded(World):
    """A world in which 16 MiB may be kept."""

    def __init__(self, most_bytes: int = MOST) -> None:
        super().__init__()
        settings = Settings(version="1.0", max_buffered_bytes=most_bytes)
        self.mux = Mux(settings, suggest=lambda name, known: [])

    @property
    def kept(self) -> int:
        return self.mux.memory.kept_bytes

    def fill(self, session: int, method: str = "tools/call", **params: Any) -> int:
        """Have a session send requests of a megabyte until one is refused; return how many."""
        for number in range(1000):
            params |= {"name": "write", "arguments": {"x": BIG}}
            done = self.request(session, number, method, **params)
            if any("server_busy" in line for line in done):
                return number
        raise AssertionError("everything was kept")

    def modern(self, session: int, ident: int, method: str = "tools/call", **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        return self.run(f">>m {session} elicitation,sampling " + json.dumps(message))


def error_of(line: str) -> Any:
    return json.loads(line.split(" ", 2)[2])["error"]


def in_flight(world: Bounded) -> None:
    world.run("!! start echo", "!! join 1 echo")


def behind_a_bound(world: Bounded) -> None:
    world.run("!! server echo max_concurrency=1", "!! start echo", "!! join 1 echo")


def waiting_for_a_turn(world: Bounded) -> None:
    world.run("!! server echo interactive=exclusive", "!! start echo")
    world.run("!! join 2 echo sampling", "!! join 1 echo sampling")
    world.call(2, 1)


def before_it_is_ready(world: Bounded) -> None:
    world.run("!! attach 1 echo")
    world.request(1, -1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})


def while_it_starts(world: Bounded) -> None:
    world.run("!! start echo", "!! join 1 echo", "!! down echo crashed")


def waiting_for_lists(world: Bounded) -> None:
    world.run("!! server echo launch=other", "!! join 1")


def being_checked(world: Bounded) -> None:
    world.run("!! server echo validates=true", "!! start echo", "!! join 1 echo")


PLACES = [
    in_flight,
    behind_a_bound,
    waiting_for_a_turn,
    before_it_is_ready,
    while_it_starts,
    waiting_for_lists,
    being_checked,
]


@pytest.mark.parametrize("place", PLACES)
def test_wherever_requests_wait_their_bytes_are_bounded(place: Any) -> None:
    """
    119 calls of 9 MB behind ``max_concurrency = 1`` took 1 GB.
    """
    world = Bounded()
    world.run("!! server echo")
    place(world)
    before = world.kept
    name = {"name": "echo__write"} if place is waiting_for_lists else {"name": "write"}
    for number in range(1000):
        done = world.request(1, number, "tools/call", **name, arguments={"x": BIG})
        if any("server_busy" in line for line in done):
            break
    else:
        raise AssertionError("everything was kept")
    error = error_of(done[-1])
    assert error["data"]["retryable"] and error["data"]["limit"] == "max_buffered_bytes"
    assert "max_buffered_bytes" in error["message"]
    assert 6 <= number <= 8 and world.kept <= MOST / 2 + MIB
    for each in range(number):
        world.run(CANCEL % (1, each))
    if place is not being_checked:  # they are being looked at, whoever waits
        assert world.kept == before
    world.run("!! close 1")
    if place is being_checked:
        world.run(*(f"!! valid {ticket}" for ticket in range(1, number + 1)))
    world.run("!! +10")
    if world.entries["echo"].interactive.value != "exclusive":
        assert world.kept == 0


def test_who_sends_much_leaves_room_for_others():
    world = Bounded()
    world.run("!! server echo max_concurrency=1", "!! start echo")
    world.run("!! join 1 echo", "!! join 2 echo", "!! join 3 echo")
    assert [world.fill(session) for session in (1, 2, 3)] == [8, 4, 2]
    world.run("!! join 4 echo")
    assert world.call(4, 1) == []  # in the queue


@pytest.mark.parametrize("place", [in_flight, behind_a_bound, while_it_starts])
def test_a_ping_is_answered_whatever_waits(place: Any):
    world = Bounded()
    world.run("!! server echo")
    place(world)
    world.fill(1)
    kept = world.kept
    for params in ({}, {"x": BIG}):
        assert world.request(1, 5000, "ping", **params) == [
            '<< 1 {"jsonrpc":"2.0","id":5000,"result":{}}'
        ]
    assert world.kept == kept


def test_a_ping_is_answered_beside_a_thousand_requests():
    world = Bounded()
    world.run("!! server echo")
    in_flight(world)
    for number in range(1001):
        last = world.call(1, number)
    assert error_of(last[-1])["data"]["kind"] == "rate_limited"
    assert '"result":{}' in world.request(1, 5000, "ping")[-1]


def test_small_requests_have_room_beside_large_ones():
    world = Bounded(64 * MIB)
    world.run("!! server echo")
    in_flight(world)
    world.fill(1)
    kinds = ["server_busy" in "".join(world.call(1, 5000 + n)) for n in range(100)]
    assert not any(kinds[:50])
    assert kinds[-1]
    world.run(*(CANCEL % (1, 5000 + n) for n in range(100)))
    kinds = ["server_busy" in "".join(world.call(1, 6000 + n)) for n in range(100)]
    assert not any(kinds[:50])


def test_a_retry_that_is_answered_gives_back_what_was_kept():
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! attach 1 echo")
    world.modern(1, 1, name="write", arguments={"x": BIG})
    kept = world.kept
    assert kept > MIB
    question = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "elicitation/create",
        "params": {"message": ""},
    }
    world.run(">> echo " + json.dumps(question))
    (parked,) = world.run("!! +0.03")
    assert world.kept >= kept, "it is answered, and its call is not over"
    state = json.loads(parked.split(" ", 2)[2])["result"]["requestState"]
    answers = {"q1": {"action": "accept"}}
    world.modern(
        1, 2, name="write", arguments={"x": BIG}, requestState=state, inputResponses=answers
    )
    assert kept <= world.kept < kept + 2000
    world.answer("echo", 3)
    assert world.kept == 0


def parked(world: Bounded, session: int, ident: int) -> str:
    """Have a call parked; return its handle."""
    sent = world.modern(session, ident, name="write", arguments={"n": ident})
    assert sent and sent[0].startswith("<< echo"), sent
    question = {
        "jsonrpc": "2.0",
        "id": ident,
        "method": "elicitation/create",
        "params": {"message": ""},
    }
    world.run(">> echo " + json.dumps(question))
    (line,) = world.run("!! +0.03")
    return str(json.loads(line.split(" ", 2)[2])["result"]["requestState"])


def test_parked_calls_count_among_the_requests_of_a_session():
    """
    1,777 were parked by one client. A retry is let in all the same: it ends one of them.
    """
    world = Bounded()
    settings = Settings(version="1.0", max_in_flight=5)
    world.mux = Mux(settings, suggest=lambda name, known: [])
    world.run("!! server echo", "!! start echo", "!! attach 1 echo")
    states = [parked(world, 1, ident) for ident in range(5)]
    (line,) = world.modern(1, 9, name="write")
    assert error_of(line)["data"]["kind"] == "rate_limited"
    answers = {"q1": {"action": "accept"}}
    retry = {"name": "write", "arguments": {"n": 0}, "inputResponses": answers}
    done = world.modern(1, 10, requestState=states[0], **retry)
    assert done and done[0].startswith("<< echo"), "the answer"
    (line,) = world.modern(1, 11, name="write")
    assert error_of(line)["data"]["kind"] == "rate_limited", "the call goes on"
    world.answer("echo", 3)
    assert world.modern(1, 12, name="write")[0].startswith("<< echo")
    world.run("!! close 1")
    assert world.kept == 0


def test_the_outcome_of_a_parked_call_is_kept_where_there_is_room():
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! attach 1 echo")
    parked(world, 1, 1)
    parked(world, 1, 2)
    world.answer("echo", 3, {"content": [BIG]})
    assert world.kept > MIB
    world.answer("echo", 4, {"content": ["x" * MOST]})
    assert world.kept < 2 * MIB
    world.run("!! close 1")
    assert world.kept == 0


def ask(world: Bounded, number: int, method: str = "elicitation/create", **params: Any) -> str:
    question = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    done = world.run(">> echo " + json.dumps(question))
    return next(line for line in done if not line.startswith("-- server-warning"))


def test_a_call_has_thirty_two_open_questions():
    """
    One call opened 200,000 elicitations at its client.
    """
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo elicitation")
    world.call(1, 1)
    assert all(ask(world, number).startswith("<< 1 ") for number in range(32))
    assert error_of(ask(world, 32))["code"] == -32603
    world.run('>> 1 {"jsonrpc":"2.0","id":1,"result":{"action":"cancel"}}')
    assert ask(world, 33).startswith("<< 1 ")
    assert error_of(ask(world, 34))["code"] == -32603
    world.answer("echo", 3)
    assert world.kept == 0


def test_two_calls_of_a_session_have_twice_as_many():
    """
    Which of them asks cannot be told, so each may have its own.
    """
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo elicitation")
    world.call(1, 1)
    world.call(1, 2)
    assert all(ask(world, number).startswith("<< 1 ") for number in range(64))
    assert error_of(ask(world, 64))["code"] == -32603


def test_a_process_has_two_hundred_and_fifty_six_open_questions():
    """
    Held ones count; the log has one line a second, and not one for each.
    """
    world = Bounded()
    world.run("!! server echo interactive=exclusive", "!! start echo")
    world.run("!! join 1 echo elicitation")
    for number in range(12):
        world.call(1, number)
    assert all(ask(world, number).startswith("<< 1 ") for number in range(MOST_OF_A_PROCESS))
    question = '>> echo {"jsonrpc":"2.0","id":"%d","method":"elicitation/create","params":{}}'
    done = world.run(*(question % number for number in range(100)))
    assert sum(line.startswith("<< echo") for line in done) == 100
    assert sum(line.startswith("-- server-warning") for line in done) == 1
    assert len(world.run("!! +1", question % 7)) == 2


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["answered", "withdrawn", "the client is gone", "the call is over"])
def test_what_a_question_keeps_is_freed_when_it_is_over(how: str):
    """
    A circle kept four megabytes of each until the garbage collector ran, and the call kept a part.
    """
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo elicitation")
    world.call(1, 1)
    open_now = world.mux._open_questions
    with without_collector():
        for number in range(1, 4):
            ask(world, number, message=BIG)
            known = [weakref.ref(each) for own in open_now._open.values() for each in own]
            assert len(known) == 1
            if how == "answered":
                world.run(f'>> 1 {{"jsonrpc":"2.0","id":{number},"result":{{"action":"cancel"}}}}')
            elif how == "withdrawn":
                withdrawn = {"method": "notifications/cancelled", "params": {"requestId": number}}
                world.run(">> echo " + json.dumps({"jsonrpc": "2.0", **withdrawn}))
            elif how == "the client is gone":
                world.run("!! close 1", "!! join 1 echo elicitation")
            else:
                world.run(CANCEL % (1, number))
            assert not open_now._open
            assert [each() for each in known] == [None]
            if how not in ("answered", "withdrawn"):
                world.call(1, number + 1)


def test_questions_count_in_bytes():
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo elicitation")
    world.call(1, 1)
    asked = [ask(world, number, message=BIG) for number in range(10)]
    assert sum(line.startswith("<< 1 ") for line in asked) == 8
    assert "max_buffered_bytes" in error_of(asked[-1])["message"]
    world.run("!! down echo crashed-for-good")
    assert world.kept == 0


@pytest.mark.parametrize("is_modern", [False, True])
def test_a_modern_server_asks_thirty_two_things_at_once(is_modern: bool):
    world = Bounded()
    world.run("!! server echo era=modern", "!! start echo")
    requests = {f"q{n}": {"method": "elicitation/create", "params": {}} for n in range(33)}
    result = {"resultType": "input_required", "inputRequests": requests}
    if is_modern:
        world.run("!! attach 1 echo")
        (sent,) = world.modern(1, 1, name="write")
    else:
        world.run("!! join 1 echo elicitation")
        (sent,) = world.call(1, 1)
    wire_id = json.loads(sent.split(" ", 2)[2])["id"]
    (line,) = world.render(world.answer("echo", wire_id, result))
    assert line.startswith("<< 1 ") and "echo: what it asks cannot be read" in line
    assert world.mux.table_sizes()["asked"] == 0 and world.kept == 0


def test_a_modern_server_has_so_many_questions_open_at_clients():
    world = Bounded()
    world.run("!! server echo era=modern", "!! start echo", "!! join 1 echo elicitation")
    requests = {f"q{n}": {"method": "elicitation/create", "params": {}} for n in range(32)}
    result = {"resultType": "input_required", "inputRequests": requests}
    wire_ids = []
    for number in range(9):
        (sent,) = world.call(1, number)
        wire_ids.append(json.loads(sent.split(" ", 2)[2])["id"])
    for wire_id in wire_ids[:8]:
        assert len(world.render(world.answer("echo", wire_id, result))) == 32
    (line,) = world.render(world.answer("echo", wire_ids[8], result))
    assert error_of(line)["data"]["kind"] == "server_busy"
    world.run("!! close 1")
    assert world.kept == 0 and world.mux.table_sizes()["asked"] == 0
    assert not world.mux._input_rounds._asked


def test_what_is_kept_of_a_round_of_questions_counts():
    world = Bounded()
    world.run("!! server echo era=modern", "!! start echo", "!! join 1 echo elicitation")
    (sent,) = world.call(1, 1)
    wire_id = json.loads(sent.split(" ", 2)[2])["id"]
    requests = {f"q{n}": {"method": "elicitation/create", "params": {}} for n in range(32)}
    result = {"resultType": "input_required", "requestState": BIG, "inputRequests": requests}
    world.answer("echo", wire_id, result)
    assert world.kept > MIB
    content = {"action": "accept", "content": {"x": BIG}}
    for number in range(1, 33):
        answer = {"jsonrpc": "2.0", "id": number, "result": content}
        done = world.run(">> 1 " + json.dumps(answer))
        assert world.kept <= MOST
        if done:
            break
    assert error_of(done[0])["data"]["kind"] == "server_busy"
    assert world.kept == 0


def test_a_session_is_subscribed_to_a_thousand_resources():
    world = Bounded(512 * MIB)
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    for number in range(MOST_FOLLOWED):
        world.request(1, number, "resources/subscribe", uri=f"file:///{number}")
        world.answer("echo", number + 3)
    (line,) = world.request(1, 1000, "resources/subscribe", uri="file:///more")
    data = error_of(line)["data"]
    assert (data["kind"], data["limit"]) == ("rate_limited", "subscriptions")
    assert world.request(1, 1001, "resources/subscribe", uri="file:///7") != [], "it has that"
    world.request(1, 1002, "resources/unsubscribe", uri="file:///7")
    world.answer("echo", 1003)
    assert world.request(1, 1003, "resources/subscribe", uri="file:///more")[0].startswith("<< e")
    world.run("!! close 1")
    assert world.kept == 0


def test_uris_of_subscriptions_count_in_bytes():
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    for number in range(20):
        done = world.request(1, number, "resources/subscribe", uri=f"{number}:{BIG}")
        if "server_busy" in done[-1]:
            break
        world.answer("echo", number + 3)
    assert number == 7
    world.run("!! close 1")
    assert world.kept == 0


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_listens_name_counts_among_a_sessions_subscriptions(era: str):
    """
    A listen with 100,000 URIs took three seconds of everybody's time.
    """
    world = Bounded()
    world.run(f"!! server echo era={era}", "!! start echo", "!! attach 1 echo")

    def listen(ident: int, count: int) -> Any:
        uris = [f"file:///{ident}/{number}" for number in range(count)]
        wanted = {"resourceSubscriptions": uris}
        return world.modern(1, ident, "subscriptions/listen", notifications=wanted)

    (line,) = listen(1, 100_000)
    assert error_of(line)["data"]["limit"] == "subscriptions"
    assert len(listen(2, 600)) == 600
    (line,) = listen(3, 401)
    assert error_of(line)["data"]["limit"] == "subscriptions"
    assert len(listen(4, 400)) == 400
    world.run(CANCEL % (1, 2))
    assert len(listen(5, 600)) == 600
    world.run("!! close 1")
    assert world.kept == 0


def test_updates_that_a_listen_misses_are_bounded():
    """
    Before it is acknowledged they wait, one for each part of what it names.
    """
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! attach 1 echo", "!! join 2 echo")
    world.request(2, 1, "resources/subscribe", uri="file:///a")
    world.answer("echo", 3)
    wanted = {"resourceSubscriptions": ["file:///a", "file:///b"]}
    world.modern(1, 1, "subscriptions/listen", notifications=wanted)
    for number in range(50):
        params = {"uri": f"file:///a/{number}", "x": BIG}
        said = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
        world.run(">> echo " + json.dumps(said))
        assert world.kept <= MOST
    world.answer("echo", 4)
    assert world.kept < 10_000


def test_answers_of_a_batch_are_kept_where_there_is_room():
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo 2025-03-26")
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write"}}'
    world.run(">> 1 [" + ",".join(call % ident for ident in range(20)) + "]")
    for wire_id in range(3, 22):
        world.answer("echo", wire_id, {"content": [BIG]})
        assert world.kept <= MOST
    (line,) = world.render(world.answer("echo", 22, {"content": []}))
    answers = json.loads(line.split(" ", 2)[2])
    kinds = [each["error"]["data"]["kind"] for each in answers if "error" in each]
    assert len(answers) == 20 and set(kinds) == {"server_busy"} and len(kinds) == 11
    assert world.kept == 0


def test_a_session_that_ends_gives_back_the_answers_of_its_batches():
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo 2025-03-26")
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write"}}'
    world.run(">> 1 [" + ",".join(call % ident for ident in range(3)) + "]")
    world.answer("echo", 3, {"content": [BIG]})
    assert world.kept > MIB
    world.run("!! close 1")
    assert world.kept == 0


WAITS = {
    "for a start": ("!! join 1 echo", "prompts/list", {}),
    "for a level": ("!! join 1 echo", "logging/setLevel", {"level": "debug"}),
    "for lists": ("!! join 1", "tools/list", {}),
    "for an owner": ("!! join 1", "resources/read", {"uri": "file:///x"}),
    "for a prompt": ("!! join 1", "prompts/get", {"name": "echo__x"}),
}


@pytest.mark.parametrize("where", WAITS)
def test_what_is_cancelled_waits_nowhere(where: str):
    """
    A client that asks and gives up, again and again, leaves nothing behind until the start.
    """
    join, method, params = WAITS[where]
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! server other", join)
    if where == "for a start":
        world.run("!! down echo crashed")
    upstreams = world.mux._state.all_upstreams()

    def waiting() -> int:
        slots = world.mux._state.all_upstreams()
        return sum(
            len(each.calls.start_wait.waiters)
            + len(each.log_level._waiters)
            + sum(map(len, each.lists._waiting.values()))
            + sum(len(one.waiters) for one in each.lists._reading.values())
            for each in slots
        )

    if where == "for a level":
        world.request(1, -1, method, level="error")
    before = waiting()
    for number in range(50):
        world.request(1, number, method, **params)
        world.run(CANCEL % (1, number))
    assert waiting() <= before + 1 and upstreams
    assert world.mux.table_sizes()["owed"] == (where == "for a level")


def test_what_is_cancelled_while_initialize_waits_is_not_kept():
    world = Bounded()
    world.run("!! server echo", "!! attach 1 echo")
    world.request(1, -1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
    for number in range(5):
        world.call(1, number, arguments={"x": BIG})
        world.run(CANCEL % (1, number))
    (session,) = world.mux._state.sessions.values()
    assert not session.backlog


def test_a_call_counts_as_it_was_first_sent_when_it_is_made_again():
    """
    Its first spelling is kept for the next process, however short the retry is.
    """
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! attach 1 echo")
    about = {
        modern_meta.VERSION_KEY: NEWEST_MODERN,
        modern_meta.CAPABILITIES_KEY: {"elicitation": {}},
    }
    params = {"name": "write", "_meta": about}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    world.say("1", json.dumps(call).replace(', "_meta"', " " * MIB + ', "_meta"').encode())
    world.run('>> echo {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}')
    (line,) = world.run("!! +0.03")
    state = json.loads(line.split(" ", 2)[2])["result"]["requestState"]
    world.modern(
        1, 2, name="write", requestState=state, inputResponses={"q1": {"action": "cancel"}}
    )
    assert world.kept > MIB
    world.answer("echo", 3)
    assert world.kept == 0


def test_a_second_initialize_is_refused_while_the_first_waits():
    world = Bounded()
    world.run("!! server echo", "!! attach 1 echo")
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {},
    }
    world.request(1, 1, "initialize", **params)
    (line,) = [each for each in world.request(1, 2, "initialize", **params) if "<<" in each]
    assert error_of(line)["code"] == -32600


def test_a_server_that_does_not_read_cancellations_gets_no_more_calls():
    """
    Each is remembered until it has read it: what it asks before is for nobody else.
    """
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo sampling", "!! deaf echo")
    for number in range(MOST_GIVEN_UP):
        world.call(1, number)
        world.run(CANCEL % (1, number))
    (line,) = world.call(1, -1)
    assert error_of(line)["data"]["kind"] == "server_busy"
    last = world.mux._state.all_upstreams()[0].calls.inflight._next - 1
    world.answer("echo", last)
    assert world.call(1, -2)[0].startswith("<< echo"), "it has read everything"


def test_an_answer_to_a_later_call_shows_that_a_cancellation_was_read():
    """
    A server that answers no ping, and answers calls, is not busy.
    """
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo sampling", "!! deaf echo")
    for number in range(2 * MOST_GIVEN_UP):
        world.call(1, number)
        world.run(CANCEL % (1, number))
        if number % 100 == 99:
            (sent,) = world.call(1, -number)
            world.answer("echo", json.loads(sent.split(" ", 2)[2])["id"])
    assert world.call(1, -1)[0].startswith("<< echo")


def test_long_names_of_pages_are_not_remembered():
    world = Bounded()
    world.run("!! server echo", "!! start echo", "!! join 1 echo elicitation")
    world.call(1, 1)
    name = "n" * 1025
    ask(world, 1, mode="url", elicitationId=name, message="", url="https://x")
    done = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete"}
    world.run(">> echo " + json.dumps(done | {"params": {"elicitationId": name}}))
    assert not world.mux._questions.url_elicitations._by_server
