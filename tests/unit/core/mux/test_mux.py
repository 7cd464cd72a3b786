"""The mux as a whole: bounds, counts, and events that come too late."""

from __future__ import annotations

import json

import pytest

from mcpd.core.facts import Failure
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Settings
from mcpd.core.mux.mux import Mux
from mcpd.ids import SessionId, SlotId
from mcpd.principal import Right
from tests.support.transcript import USER
from tests.unit.core.mux.world import World

FAILURE = Failure("server_crashed", "gone")


def world(*more: str) -> World:
    made = World()
    made.run("!! server echo", "!! start echo", "!! join 1 echo", *more)
    return made


def test_a_session_has_so_many_requests_in_flight_and_no_more():
    made = world()
    for ident in range(1000):
        made.call(1, ident)
    (refusal,) = made.call(1, 1000)
    assert '"rate_limited"' in refusal and '"id":1000' in refusal
    made.answer("echo", 3)
    assert made.call(1, 1001)[0].startswith("<< echo")


def test_what_is_in_flight_is_counted():
    made = world("!! join 2 echo")
    made.call(1, 1)
    made.call(2, 1)
    assert made.mux.in_flight_count() == 2
    assert made.mux.session_count() == 2
    report = made.mux.report("echo")
    assert (report.sessions, report.in_flight, report.calls) == (2, 2, 0)
    made.answer("echo", 3)
    assert made.mux.report("echo").calls == 1


def test_connections_that_have_not_said_what_they_are_are_no_sessions():
    made = world("!! open 2")
    made.request(2, 1, "mcpd/hello")
    assert made.mux.session_count() == 1
    made.request(2, 2, "ping")
    assert made.mux.session_count() == 2


@pytest.mark.parametrize(
    "event",
    [
        ev.FrameFromSession(SessionId(9), b"{}"),
        ev.SessionClosed(SessionId(9), "gone"),
        ev.ServerUp(SlotId("nowhere")),
        ev.FrameFromServer(SlotId("nowhere"), b"{}"),
        ev.ServerDown(SlotId("nowhere"), FAILURE, False, True),
        ev.WriteRefused(SlotId("nowhere"), 1),
        ev.WriteRefused(SlotId("echo-1"), 99),
        ev.Attach(SessionId(9), b"1", None, None, None, (), True),
        ev.Attach(SessionId(1), b"1", None, None, None, (), True),
        ev.CallTool(SessionId(9), b"1", "echo", "echo", None, None, False),
        ev.ListItems(SessionId(1), b"1", ("tools",), None),
        ev.ReadResource(SessionId(1), b"1", None, "a:b"),
        ev.GetPrompt(SessionId(1), b"1", "echo", "p", None),
        ev.ControlDone(SessionId(1), b"1", b"{}"),
        ev.ControlDone(SessionId(9), b"1", b"{}"),
        ev.Validated(99),
        ev.StartUnasked("nobody"),
        ev.Tick(),
    ],
)
def test_what_comes_too_late_means_nothing(event: ev.Event):
    """
    Connections, processes and answers cross each other; none of it may raise.
    """
    assert world().mux.handle(event, 100.0) == []


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_large_result_in_parts_is_not_copied(size: int):
    there = world()
    there.run("!! open 5", '>> 5 {"jsonrpc":"2.0","id":"x","method":"mcpd/logs"}')
    parts = (b'["', b"x" * size, b'"]')
    (command,) = there.mux.handle(ev.ControlDone(SessionId(5), b'"x"', parts), 100.0)
    assert isinstance(command, cmd.ToSession)
    line = (b'{"jsonrpc":"2.0","id":"x","result":', *parts, b"}\n")
    assert command.data == (line if size > 65536 else b"".join(line))


def test_nothing_is_due_while_nothing_is_under_way():
    """
    An idle daemon sleeps.
    """
    made = world("!! close 1")
    assert made.mux.next_deadline() is None
    assert made.mux.table_sizes() == dict.fromkeys(made.mux.table_sizes(), 0)


def test_two_events_may_have_the_same_time():
    mux = Mux(Settings(version="1"), suggest=lambda name, known: [])
    assert mux.handle(ev.SessionOpened(SessionId(1), USER), 5.0) == []
    assert mux.handle(ev.SessionClosed(SessionId(1), "gone"), 5.0) == []


def test_suggestions_are_made_where_a_name_is_wrong():
    made = World()
    made.mux = Mux(Settings(version="1"), suggest=lambda name, known: sorted(known)[:1])
    made.run("!! server echo", "!! start echo", "!! open 1", "!! join 2")
    wrong = made.request(1, 1, "mcpd/call", server="ecko", tool="echo")[0]
    assert "did you mean echo?" in wrong and '"near":["echo"]' in wrong
    wrong = made.call(2, 1, "echo__ecko")[0]
    assert "did you mean echo__echo?" in wrong


def test_a_report_of_a_server_tells_what_is_known_of_it():
    made = world("!! hold echo", ">> echo noise", ">> echo more noise")
    report = made.mux.report("echo")
    assert (report.noise, report.tools, report.is_held) == (2, 2, True)
    assert report.introduction is not None and report.introduction.version == "2025-11-25"
    assert [slot.key for slot in report.slots] == [None]
    unknown = made.mux.report("nobody")
    assert (unknown.sessions, unknown.tools, unknown.slots) == (0, None, ())


def test_counts_outlive_the_process_that_they_were_counted_for():
    made = world()
    made.call(1, 1)
    made.answer("echo", 3)
    made.call(1, 2)
    made.run("!! server echo launch=echo-2")
    assert made.mux.report("echo").calls == 1
    made.answer("echo-1", 4)
    assert made.mux.report("echo").calls == 2


def silence_of(made: World) -> float | None:
    made.mux.handle(ev.Tick(), made.now)  # whoever asks causes an event
    return made.mux.report("echo").slots[0].silent_s


def test_a_server_is_silent_from_what_it_owes_or_from_what_it_last_said():
    """
    Nobody asks it anything to find that out: a call that takes long is all there is to see.
    """
    made = world()
    made.run("!! +5")
    assert silence_of(made) is None
    made.call(1, 1)
    made.run("!! +40")
    assert silence_of(made) == 40
    made.run('>> echo {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}', "!! +2")
    assert silence_of(made) == 2
    made.answer("echo", 3)
    assert silence_of(made) is None


def test_a_server_that_waits_for_an_answer_to_its_question_owes_nothing():
    made = world("!! join 2 echo sampling")
    made.call(2, 1)
    made.run('>> echo {"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}')
    made.run("!! +40")
    assert silence_of(made) is None
    made.run('>> 2 {"jsonrpc":"2.0","id":1,"result":{}}', "!! +2")
    assert silence_of(made) == 42


def test_noise_is_counted_with_what_was_wrong_with_it():
    made = world()
    made.run(">> echo {}", ">> echo Content-Length: 12")
    report = made.mux.report("echo")
    assert report.noise == 2
    assert report.noise_reason and report.noise_reason.startswith("Content-Length framing")


def batch(count: int, method: str = "ping") -> bytes:
    elements = ({"jsonrpc": "2.0", "id": n, "method": method} for n in range(count))
    return json.dumps(list(elements)).encode()


def test_the_elements_of_an_array_are_asked_for_one_by_one():
    """
    In one event they would all be heard in one go.
    """
    made = world("!! join 2 echo 2025-03-26")
    asked = made.mux.handle(ev.FrameFromSession(SessionId(2), batch(3)), made.now)
    assert len(asked) == 1 and isinstance(asked[0], cmd.SessionElements)
    *others, last = asked[0].elements
    for element in others:
        assert made.mux.handle(ev.FrameFromSession(SessionId(2), element), made.now) == []
    (answer,) = made.mux.handle(ev.FrameFromSession(SessionId(2), last), made.now)
    assert isinstance(answer, cmd.ToSession) and isinstance(answer.data, bytes)
    assert [each["id"] for each in json.loads(answer.data)] == [0, 1, 2]
    made.request(2, 7, "ping")
    (answer,) = made.mux.handle(ev.FrameFromSession(SessionId(2), b"{"), made.now)[-1:]
    assert isinstance(answer, cmd.ToSession) and answer.data[:1] == b"{", "no part of an array"


def test_an_array_of_too_many_messages_gets_one_error():
    made = world("!! join 2 echo 2025-03-26")
    for frame in (batch(1001), b"[" + b"1," * 500_000 + b"1]", b"[" * 1_000_000):
        (answer,) = [
            command
            for command in made.mux.handle(ev.FrameFromSession(SessionId(2), frame), made.now)
            if isinstance(command, cmd.ToSession)
        ]
        assert isinstance(answer.data, bytes) and json.loads(answer.data)["error"]


def test_an_array_of_too_many_messages_of_a_server_is_noise_once():
    made = world()
    for frame in (b"[" + b"{}," * 1000 + b"{}]", b"[" + b"1," * 500_000 + b"1]"):
        before = made.mux.report("echo").noise
        assert made.render(made.say("echo", frame))[0].startswith("-- server-noise")
        report = made.mux.report("echo")
        assert report.noise == before + 1
        assert report.noise_reason == "an array has at most 1000 messages"


def test_a_client_is_told_that_its_params_have_too_many_members():
    made = world("!! join 2 echo")
    many = {f"member-{n:060}": 1 for n in range(1001)}
    (said,) = made.request(2, 1, "tools/call", name="write", arguments={}, **many)
    assert "params must be an object of at most 1000 members" in said


@pytest.mark.parametrize("method", ["mcpd/hello", "mcpd/shutdown", "mcpd/nothing"])
def test_a_principal_without_the_right_gets_no_control_method(method: str):
    """
    It cannot tell a method that it may not use from one that does not exist.
    """
    made = World()
    without = USER.without(Right.CONTROL)
    made.handle(ev.SessionOpened(SessionId(1), without))
    frame = b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % method.encode()
    (command,) = made.mux.handle(ev.FrameFromSession(SessionId(1), frame), 1.0)
    assert isinstance(command, cmd.ToSession)
    assert b"unknown method '%b'" % method.encode() in bytes(command.data)


def test_a_client_that_attaches_can_give_up_the_right_to_control():
    made = World()
    made.handle(ev.SessionOpened(SessionId(1), USER))
    made.mux.handle(
        ev.FrameFromSession(SessionId(1), b'{"jsonrpc":"2.0","id":1,"method":"mcpd/attach"}'), 1.0
    )
    attach = ev.Attach(SessionId(1), b"1", None, "test", None, (), may_control=False)
    made.handle(attach)
    frame = b'{"jsonrpc":"2.0","id":2,"method":"mcpd/hello"}'
    (command,) = made.mux.handle(ev.FrameFromSession(SessionId(1), frame), 1.0)
    assert isinstance(command, cmd.ToSession)
    assert b"unknown method" in bytes(command.data)
