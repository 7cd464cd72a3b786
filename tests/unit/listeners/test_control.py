"""Control methods: parameters are checked, each request is answered once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcpd.core.facts import Failure
from mcpd.core.mux import events
from mcpd.core.mux.commands import Control
from mcpd.ids import SessionId
from mcpd.listeners import control
from mcpd.listeners.control import Desk, Json, Send, Unsubscribe, read

ONE = SessionId(1)


class FakeBackend:
    """Answers what a test tells it to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.unsubscribed = 0
        self.send: Send | None = None
        self.drains: list[float | None] = []
        self.started = 0
        self.cancelled = 0

    def workspace(self, cwd: str) -> str | None:
        return f"project of {cwd}"

    def hello(self) -> Json:
        return {"api": 1}

    def attach(self, params: control.AttachParams) -> tuple[str | None, str | None] | Failure:
        if params.server == "nope":
            return Failure("config_invalid", "no such thing")
        return params.server, "/work"

    async def status(self, servers: tuple[str, ...] | None) -> Json | Failure:
        raise ZeroDivisionError

    def entries(self) -> Json:
        return {"servers": []}

    async def start(self, servers: tuple[str, ...]) -> Json | Failure:
        self.started += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {"servers": list(servers)}

    async def stop(self, servers: tuple[str, ...]) -> Json | Failure:
        return Failure("server_not_found", "who?")

    async def restart(self, servers: tuple[str, ...]) -> Json | Failure:
        return {"restarted": list(servers)}

    async def reload(self) -> Json | Failure:
        return {}

    def logs(self, server: str | None, lines: int) -> Iterator[list[Any]] | Failure:
        return iter([[{"text": "one"}], [], [{"text": "two"}]])

    def follow_log(self, server: str | None, send: Send) -> Unsubscribe:
        return self._follow(send)

    def events(self, servers: tuple[str, ...] | None) -> Json | Failure:
        return {"seq": 7}

    def follow_events(
        self, servers: tuple[str, ...] | None, since: int | None, send: Send
    ) -> Unsubscribe:
        send({"seq": 7})
        return self._follow(send)

    def shutdown(self, drain: float | None) -> None:
        self.drains.append(drain)

    def _follow(self, send: Send) -> Unsubscribe:
        self.send = send

        def unsubscribe() -> None:
            self.unsubscribed += 1

        return unsubscribe


class Office:
    """A desk with what came out of it, in order."""

    def __init__(self) -> None:
        self.backend = FakeBackend()
        self.out: list[Any] = []
        self.desk = Desk(self.backend, dispatch=self.out.append, notify=self._notify)

    def _notify(self, session: SessionId, line: bytes) -> None:
        self.out.append((session, json.loads(line)))

    def ask(self, method: str, params: object = None) -> Any:
        raw = None if params is None else json.dumps(params).encode()
        self.desk.serve(Control(ONE, b"1", method, raw))

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def office() -> Office:
    return Office()


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("mcpd/call", b"{}", "server"),
        ("mcpd/call", b'{"server":5,"tool":"x"}', "params.server: expected `str`, got `int`"),
        ("mcpd/call", b'{"server":"x"}', "tool"),
        ("mcpd/call", b"[1]", "expected `object`"),
        ("mcpd/logs", b'{"lines":"many"}', "params.lines"),
        ("mcpd/start", b'{"servers":"one"}', "params.servers"),
        ("mcpd/attach", b'{"roots":[1]}', "params.roots[0]"),
        ("mcpd/read", b'"x"', "object"),
        ("mcpd/call", b'{"server":"a","tool":"t","timeout":"5"}', "params.timeout: expected"),
        ("mcpd/call", b'{"server":"a","tool":"t","timeout":true}', "params.timeout: expected"),
        ("mcpd/call", b'{"server":"a","tool":"t","timeout":0}', "params.timeout: expected"),
        ("mcpd/call", b'{"server":"a","tool":"t","timeout":-0.5}', "params.timeout: expected"),
        ("mcpd/call", b'{"server":"a","tool":"t","timeout":1e400}', "params.timeout"),
        ("mcpd/start", b'{"servers":[%b"x"]}' % (b'"x",' * 1000), "params.servers"),
        ("mcpd/events", b'{"servers":[%b"x"]}' % (b'"x",' * 1000), "params.servers"),
        ("mcpd/attach", b'{"roots":[%b"x"]}' % (b'"x",' * 1000), "params.roots"),
        ("mcpd/attach", b'{"cwd":"%b"}' % (b"/a" * 2049), "params.cwd"),
        ("mcpd/hello", b'{"cwd":"%b"}' % (b"/a" * 2049), "params.cwd"),
        ("mcpd/hello", b'{"x":"%b"}' % (b"x" * control.PARAMS_BYTES), "params: expected at most"),
    ],
)
def test_bad_parameters_are_told_with_their_place(method: str, params: bytes, says: str) -> None:
    found = read(method, params)
    assert isinstance(found, Failure)
    assert found.kind == "invalid_params"
    assert says in found.message


def test_what_is_not_known_of_the_parameters_is_left_alone() -> None:
    """
    Newer clients may send it.
    """
    assert isinstance(read("mcpd/hello", b'{"new":1}'), control.Hello)


@pytest.mark.parametrize("params", [None, b"null", b"{}"])
def test_no_parameters_are_as_good_as_empty_ones(params: bytes | None) -> None:
    assert isinstance(read("mcpd/events", params), control.Events)


def test_an_unknown_method_is_one() -> None:
    found = read("mcpd/nope", None)
    assert isinstance(found, Failure)
    assert found.kind == "unknown_method"


def test_lone_surrogates_in_arguments_pass() -> None:
    """
    JavaScript sends them; msgspec refuses them even in what it leaves raw.
    """
    raw = b'{"server":"a","tool":"t","arguments":{"x":"\\ud800"}}'
    found = read("mcpd/call", raw)
    assert isinstance(found, control.CallParams)
    assert bytes(found.arguments) == b'{"x":"\\ud800"}'


def test_lone_surrogates_do_not_hide_a_wrong_timeout() -> None:
    found = read("mcpd/call", b'{"server":"a","tool":"t","arguments":["\\ud800"],"timeout":0}')
    assert isinstance(found, Failure)
    assert "params.timeout" in found.message


def test_lone_surrogates_do_not_hide_what_is_missing() -> None:
    found = read("mcpd/call", b'{"server":"a","arguments":{"x":"\\ud800"}}')
    assert isinstance(found, Failure)
    assert "tool" in found.message


async def test_a_call_becomes_an_event_with_its_arguments_untouched(office: Office) -> None:
    raw = b'{"server":"a","tool":"t","arguments":{"n":1.0},"timeout":2,"progress":true}'
    office.desk.serve(Control(ONE, b"1", "mcpd/call", raw))
    assert office.out == [events.CallTool(ONE, b"1", "a", "t", b'{"n":1.0}', 2.0, True)]


async def test_arguments_of_a_tool_may_be_any_json_and_those_of_a_prompt_an_object(
    office: Office,
) -> None:
    """
    MCP has objects alone, and some tools declare a schema of something else.
    """
    office.ask("mcpd/call", {"server": "a", "tool": "t", "arguments": [1]})
    assert json.loads(office.out[0].arguments) == [1]
    office.ask("mcpd/prompt", {"server": "a", "name": "p", "arguments": [1]})
    assert office.out[1].failure.kind == "invalid_params"


@pytest.mark.parametrize(
    ("method", "kinds"),
    [
        ("mcpd/tools", ("tools",)),
        ("mcpd/prompts", ("prompts",)),
        ("mcpd/resources", ("resources", "templates")),
    ],
)
async def test_lists_become_events(office: Office, method: str, kinds: tuple[str, ...]) -> None:
    office.ask(method, {"server": "a"})
    assert office.out == [events.ListItems(ONE, b"1", kinds, "a")]


async def test_attaching_tells_who_and_where(office: Office) -> None:
    client = {"name": "ed", "version": "2", "pid": 5}
    office.ask("mcpd/attach", {"server": "a", "client": client, "control": False})
    (event,) = office.out
    assert event == events.Attach(ONE, b"1", "a", "ed 2", "/work", (), False, 5)


async def test_attaching_may_fail_at_once(office: Office) -> None:
    office.ask("mcpd/attach", {"server": "nope"})
    assert office.out[0].failure.kind == "config_invalid"


async def test_an_answer_that_takes_its_time_comes_later(office: Office) -> None:
    office.ask("mcpd/start", {"servers": ["a"]})
    await office.settle()
    assert office.out == []
    office.backend.gate.set()
    await office.settle()
    assert office.out == [events.ControlDone(ONE, b"1", b'{"servers":["a"]}')]
    assert len(office.desk) == 0


async def test_a_cancelled_request_is_not_answered(office: Office) -> None:
    office.ask("mcpd/start", {"servers": ["a"]})
    await office.settle()
    office.desk.cancel(ONE, b"1")
    office.backend.gate.set()
    await office.settle()
    assert office.out == []
    assert office.backend.cancelled == 1
    assert len(office.desk) == 0


async def test_a_failure_is_an_answer(office: Office) -> None:
    office.ask("mcpd/stop", {"servers": ["a"]})
    await office.settle()
    assert office.out[0].failure.kind == "server_not_found"


async def test_a_bug_of_ours_is_an_answer_too(office: Office) -> None:
    office.ask("mcpd/status")
    await office.settle()
    assert office.out[0].failure.kind == "internal"


async def test_what_a_stream_brings_follows_its_answer(office: Office) -> None:
    office.ask("mcpd/events", {"since": 0})
    await office.settle()
    answer, first = office.out
    assert answer == events.ControlDone(ONE, b"1", b'{"seq":7}', is_stream=True)
    assert first == (ONE, {"jsonrpc": "2.0", "method": "mcpd/event", "params": {"seq": 7}})
    assert office.backend.send is not None
    office.backend.send({"seq": 8})
    assert office.out[-1][1]["params"] == {"seq": 8}


async def test_a_stream_ends_when_it_is_cancelled(office: Office) -> None:
    office.ask("mcpd/logs", {"follow": True})
    await office.settle()
    assert office.out[0].is_stream
    office.desk.cancel(ONE, b"1")
    assert office.backend.unsubscribed == 1
    assert len(office.desk) == 0


async def test_a_connection_has_so_many_streams_and_no_more(office: Office) -> None:
    """
    Each is told each event: a thousand of them were a thousand lines for each.
    """
    for number in range(control.MOST_STREAMS + 1):
        method = ("mcpd/events", "mcpd/logs")[number % 2]
        office.desk.serve(Control(ONE, b"%d" % number, method, b'{"follow":true}'))
        await office.settle()
    answers = [each for each in office.out if isinstance(each, events.ControlDone)]
    assert [each.failure is None for each in answers] == [True] * control.MOST_STREAMS + [False]
    assert answers[-1].failure is not None
    assert answers[-1].failure.kind == "rate_limited"
    office.desk.serve(Control(SessionId(2), b"1", "mcpd/events", None))
    office.desk.cancel(ONE, b"0")
    office.desk.serve(Control(ONE, b"again", "mcpd/events", None))
    await office.settle()
    answers = [each for each in office.out if isinstance(each, events.ControlDone)]
    assert [each.failure for each in answers[-2:]] == [None, None]
    office.desk.close()
    assert len(office.desk) == 0


async def test_arguments_of_a_tool_may_be_long(office: Office) -> None:
    office.ask("mcpd/call", {"server": "s", "tool": "t", "arguments": {"x": "x" * (2 << 20)}})
    assert len(office.out[0].arguments) > control.PARAMS_BYTES


async def test_what_comes_while_a_long_log_is_read_follows_it(office: Office) -> None:
    """
    Others have their turn between the pieces, and what they say there is not missed.
    """
    office.ask("mcpd/logs", {"follow": True})
    await asyncio.sleep(0)
    assert office.backend.send is not None
    assert office.out == []
    office.backend.send({"text": "three"})
    await office.settle()
    office.backend.send({"text": "four"})
    answer, *rest = office.out
    lines = b'{"lines":[{"text":"one"},{"text":"two"}]}'
    assert answer == events.ControlDone(ONE, b"1", lines, is_stream=True)
    assert [told["params"]["text"] for _, told in rest] == ["three", "four"]


async def test_logs_without_follow_are_no_stream(office: Office) -> None:
    office.ask("mcpd/logs")
    await office.settle()
    assert not office.out[0].is_stream
    assert len(office.desk) == 0


async def test_shutting_down_is_answered_first(office: Office) -> None:
    office.ask("mcpd/shutdown", {"drain": 1})
    assert office.out == [events.ControlDone(ONE, b"1", b"{}")]
    assert office.backend.drains == [1.0]
