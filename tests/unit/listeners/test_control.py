"""Control requests of the socket: each is answered once, in order, or cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcpd.api import requests as api
from mcpd.core.facts import Failure
from mcpd.core.interface import events
from mcpd.core.interface.commands import Control
from mcpd.ids import SessionId
from mcpd.listeners import control
from mcpd.listeners.control import ControlServer
from mcpd.listeners.requests import (
    Answer,
    ControlRequests,
    Encoded,
    Method,
    Request,
    Send,
    Unsubscribe,
)
from mcpd.principal import local

ONE = SessionId(1)
USER = local(1000)


class FakeHandlers:
    """Answers what a test wants."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.unsubscribed = 0
        self.send: Send | None = None
        self.cancelled = 0

    async def wait(self, _request: Request, params: api.ServersParams) -> Answer:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {"servers": list(params.servers)}

    def greet(self, _request: Request, _params: api.Params) -> Answer:
        return {"api": 1}

    def quote(self, _request: Request, _params: api.Params) -> Answer:
        return Encoded((b"[1", b",2]"))

    def ask_mux(self, request: Request, _params: api.Params) -> Answer:
        return events.ListItems(request.session, request.key, ("tools",), None)

    async def fail(self, _request: Request, _params: api.Params) -> Answer:
        return Failure("server_not_found", "which one?")

    async def crash(self, _request: Request, _params: api.Params) -> Answer:
        raise ZeroDivisionError

    def follow(self, request: Request, _params: api.Params) -> Answer:
        return request.follow("mcpd/event", self._subscribe) or {"seq": 7}

    async def follow_slowly(self, request: Request, _params: api.Params) -> Answer:
        refusal = request.follow("mcpd/log", self._subscribe)
        await asyncio.sleep(0)
        return refusal or {"lines": []}

    async def follow_and_fail(self, request: Request, _params: api.Params) -> Answer:
        request.follow("mcpd/log", self._subscribe)
        return Failure("server_not_found", "which one?")

    def _subscribe(self, send: Send) -> Unsubscribe:
        self.send = send
        send({"seq": 7})

        def unsubscribe() -> None:
            self.unsubscribed += 1

        return unsubscribe


METHODS = (
    Method("wait", api.ServersParams, dict, FakeHandlers.wait),
    Method("greet", api.Params, dict, FakeHandlers.greet),
    Method("quote", api.Params, list, FakeHandlers.quote),
    Method("ask_mux", api.Params, dict, FakeHandlers.ask_mux),
    Method("fail", api.Params, dict, FakeHandlers.fail),
    Method("crash", api.Params, dict, FakeHandlers.crash),
    Method("follow", api.Params, dict, FakeHandlers.follow),
    Method("follow_slowly", api.Params, dict, FakeHandlers.follow_slowly),
    Method("follow_and_fail", api.Params, dict, FakeHandlers.follow_and_fail),
)


class World:
    """A control server with what came out of it, in order."""

    def __init__(self) -> None:
        self.handlers = FakeHandlers()
        self.out: list[Any] = []
        self.brought: list[tuple[Mapping[str, Any], str | None]] = []
        self.attaching: list[tuple[Any, ...]] = []
        self.server = ControlServer(
            ControlRequests(METHODS, self.handlers),
            server_of_command=self._server_of_command,
            attaching=lambda *each: self.attaching.append(each),
            dispatch=self.out.append,
            notify=lambda session, line: self.out.append((session, json.loads(line))),
        )

    def _server_of_command(self, command: Mapping[str, Any], cwd: str | None) -> str | Failure:
        self.brought.append((command, cwd))
        return "brought" if command else Failure("config_invalid", "no command")

    def ask(
        self, method: str, params: object = None, *, session: SessionId = ONE, key: bytes = b"1"
    ) -> None:
        raw = None if params is None else json.dumps(params).encode()
        self.server.serve(Control(session, key, method, raw, USER))

    def answers(self) -> list[events.ControlDone]:
        return [each for each in self.out if isinstance(each, events.ControlDone)]

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def world() -> World:
    return World()


async def test_attaching_names_the_client_and_its_workspace(world: World) -> None:
    client = {"name": "ed", "version": "2", "pid": 5}
    params = {"server": "a", "client": client, "control": False, "roots": ["file:///work"]}
    world.ask("mcpd/attach", params)
    (event,) = world.out
    assert event == events.Attach(ONE, b"1", "a", "ed 2", "/work", ("file:///work",), False, 5)
    assert len(world.server) == 0
    ((session, found, workspace),) = world.attaching
    assert (session, found.client.pid, workspace) == (ONE, 5, "/work")


async def test_attaching_may_bring_a_server(world: World) -> None:
    world.ask("mcpd/attach", {"command": {"command": "x"}, "cwd": "/work"})
    assert world.brought == [({"command": "x"}, "/work")]
    assert world.out[0].server == "brought"


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"command": {}}, "config_invalid"),
        ({"command": {"command": "x"}, "server": "a"}, "invalid_params"),
        ({"cwd": "here"}, "invalid_params"),
        ({"cwd": 1}, "invalid_params"),
    ],
)
async def test_attaching_may_fail_at_once(
    world: World, params: dict[str, object], kind: str
) -> None:
    world.ask("mcpd/attach", params)
    assert world.out[0].failure.kind == kind
    assert len(world.server) == 0


async def test_a_result_that_is_there_is_sent_at_once(world: World) -> None:
    world.ask("greet")
    assert world.out == [events.ControlDone(ONE, b"1", b'{"api":1}')]
    assert len(world.server) == 0


async def test_a_result_that_is_encoded_already_stays_in_its_parts(world: World) -> None:
    world.ask("quote")
    assert world.out == [events.ControlDone(ONE, b"1", (b"[1", b",2]"))]
    assert len(world.server) == 0


async def test_a_request_that_the_mux_answers_is_handed_over(world: World) -> None:
    world.ask("ask_mux")
    assert world.out == [events.ListItems(ONE, b"1", ("tools",), None)]
    assert len(world.server) == 0


async def test_an_answer_that_takes_time_comes_later(world: World) -> None:
    world.ask("wait", {"servers": ["a"]})
    await world.settle()
    assert world.out == []
    world.handlers.gate.set()
    await world.settle()
    assert world.out == [events.ControlDone(ONE, b"1", b'{"servers":["a"]}')]
    assert len(world.server) == 0


async def test_a_cancelled_request_is_not_answered(world: World) -> None:
    world.ask("wait", {"servers": ["a"]})
    await world.settle()
    world.server.cancel(ONE, b"1")
    world.handlers.gate.set()
    await world.settle()
    assert world.out == []
    assert world.handlers.cancelled == 1
    assert len(world.server) == 0


async def test_a_failure_is_an_answer(world: World) -> None:
    world.ask("fail")
    await world.settle()
    assert world.out[0].failure.kind == "server_not_found"
    assert len(world.server) == 0


async def test_a_crash_of_a_handler_is_answered(world: World) -> None:
    world.ask("crash")
    await world.settle()
    assert world.out[0].failure.kind == "internal"
    assert len(world.server) == 0


async def test_notifications_of_a_stream_follow_its_answer(world: World) -> None:
    world.ask("follow")
    answer, first = world.out
    assert answer == events.ControlDone(ONE, b"1", b'{"seq":7}', is_stream=True)
    assert first == (ONE, {"jsonrpc": "2.0", "method": "mcpd/event", "params": {"seq": 7}})
    assert world.handlers.send is not None
    world.handlers.send({"seq": 8})
    assert world.out[-1][1]["params"] == {"seq": 8}


async def test_notifications_wait_for_an_answer_that_takes_time(world: World) -> None:
    world.ask("follow_slowly")
    await asyncio.sleep(0)
    assert world.handlers.send is not None
    world.handlers.send({"seq": 8})
    assert world.out == []
    await world.settle()
    answer, *rest = world.out
    assert answer == events.ControlDone(ONE, b"1", b'{"lines":[]}', is_stream=True)
    assert [line["params"]["seq"] for _, line in rest] == [7, 8]


async def test_a_stream_ends_when_it_is_cancelled(world: World) -> None:
    world.ask("follow")
    world.server.cancel(ONE, b"1")
    assert world.handlers.unsubscribed == 1
    assert len(world.server) == 0


async def test_a_stream_ends_when_it_is_cancelled_before_its_answer(world: World) -> None:
    world.ask("follow_slowly")
    await asyncio.sleep(0)
    world.server.cancel(ONE, b"1")
    await world.settle()
    assert world.handlers.unsubscribed == 1
    assert world.out == []


async def test_a_request_that_fails_leaves_no_stream(world: World) -> None:
    world.ask("follow_and_fail")
    await world.settle()
    (answer,) = world.out
    assert answer.failure is not None
    assert not answer.is_stream
    assert world.handlers.unsubscribed == 1
    assert len(world.server) == 0


async def test_the_streams_of_a_connection_are_bounded(world: World) -> None:
    """
    Each stream gets each event: with a thousand streams an event was a thousand lines.
    """
    for number in range(control.MOST_STREAMS + 1):
        world.ask(("follow", "follow_slowly")[number % 2], key=b"%d" % number)
        await world.settle()
    answers = world.answers()
    assert [each.failure is None for each in answers] == [True] * control.MOST_STREAMS + [False]
    assert answers[-1].failure is not None
    assert answers[-1].failure.kind == "rate_limited"
    world.ask("follow", session=SessionId(2))
    world.server.cancel(ONE, b"0")
    world.ask("follow", key=b"again")
    assert [each.failure for each in world.answers()[-2:]] == [None, None]
    world.server.close()
    assert len(world.server) == 0
