"""Control requests without a transport: parameters are checked, each method has its handler."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any

import pytest

from mcpd.api import requests as api
from mcpd.core.facts import Failure
from mcpd.core.interface import events
from mcpd.daemon.control.handlers import METHODS, ControlHandlers
from mcpd.ids import SessionId
from mcpd.listeners.control import ATTACH
from mcpd.listeners.requests import Answer, ControlRequests, Method, Request, Send, read
from mcpd.principal import Principal, Right, local

ONE = SessionId(1)
USER = local(1000)
PARAMS = {method.name: method.params for method in METHODS} | {ATTACH: api.AttachParams}


def request(
    method: str,
    params: bytes | None = None,
    *,
    principal: Principal = USER,
    sent: list[Any] | None = None,
    refusal: Failure | None = None,
) -> Request:
    notified: list[Any] = [] if sent is None else sent
    return Request(
        method,
        params,
        principal=principal,
        session=ONE,
        key=b"1",
        notify=lambda name, value: notified.append((name, value)),
        refuse_stream=lambda: refusal,
    )


def serve(method: str, params: object = None) -> Any:
    """Return the answer of a method that the mux answers: none of these needs a daemon."""
    handlers = object.__new__(ControlHandlers)
    raw = None if params is None else json.dumps(params).encode()
    return ControlRequests(METHODS, handlers).serve(request(method, raw))


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
        ("mcpd/hello", b'{"x":"%b"}' % (b"x" * api.PARAMS_BYTES), "params: expected at most"),
    ],
)
def test_an_error_names_the_wrong_parameter(method: str, params: bytes, says: str) -> None:
    found = read(method, PARAMS[method], params)
    assert isinstance(found, Failure)
    assert found.kind == "invalid_params"
    assert says in found.message


def test_unknown_parameters_are_ignored() -> None:
    """
    Newer clients may send it.
    """
    assert isinstance(read("mcpd/hello", api.HelloParams, b'{"new":1}'), api.HelloParams)


@pytest.mark.parametrize("params", [None, b"null", b"{}"])
def test_missing_parameters_are_empty_ones(params: bytes | None) -> None:
    assert isinstance(read("mcpd/events", api.EventsParams, params), api.EventsParams)


def test_an_unknown_method_is_refused() -> None:
    assert serve("mcpd/nope") == Failure(
        "unknown_method", "unknown method 'mcpd/nope'", hint="see docs/protocol.md"
    )


def test_lone_surrogates_in_arguments_pass() -> None:
    """
    JavaScript sends them; msgspec refuses them even in what it leaves raw.
    """
    raw = b'{"server":"a","tool":"t","arguments":{"x":"\\ud800"}}'
    found = read("mcpd/call", api.CallParams, raw)
    assert isinstance(found, api.CallParams)
    assert bytes(found.arguments) == b'{"x":"\\ud800"}'


def test_lone_surrogates_do_not_hide_a_wrong_timeout() -> None:
    found = read(
        "mcpd/call",
        api.CallParams,
        b'{"server":"a","tool":"t","arguments":["\\ud800"],"timeout":0}',
    )
    assert isinstance(found, Failure)
    assert "params.timeout" in found.message


def test_lone_surrogates_do_not_hide_what_is_missing() -> None:
    found = read("mcpd/call", api.CallParams, b'{"server":"a","arguments":{"x":"\\ud800"}}')
    assert isinstance(found, Failure)
    assert "tool" in found.message


def test_a_call_becomes_an_event_with_its_arguments_untouched() -> None:
    raw = b'{"server":"a","tool":"t","arguments":{"n":1.0},"timeout":2,"progress":true}'
    requests = ControlRequests(METHODS, object.__new__(ControlHandlers))
    answer = requests.serve(request("mcpd/call", raw))
    assert answer == events.CallTool(ONE, b"1", "a", "t", b'{"n":1.0}', 2.0, True)


def test_arguments_of_a_tool_may_be_any_json_and_those_of_a_prompt_an_object() -> None:
    """
    MCP has objects alone, and some tools declare a schema of something else.
    """
    call = serve("mcpd/call", {"server": "a", "tool": "t", "arguments": [1]})
    assert json.loads(call.arguments) == [1]
    prompt = serve("mcpd/prompt", {"server": "a", "name": "p", "arguments": [1]})
    assert prompt.kind == "invalid_params"


def test_arguments_of_a_tool_may_be_long() -> None:
    arguments = {"x": "x" * (2 << 20)}
    call = serve("mcpd/call", {"server": "s", "tool": "t", "arguments": arguments})
    assert len(call.arguments) > api.PARAMS_BYTES


@pytest.mark.parametrize(
    ("method", "kinds"),
    [
        ("mcpd/tools", ("tools",)),
        ("mcpd/prompts", ("prompts",)),
        ("mcpd/resources", ("resources", "templates")),
    ],
)
def test_lists_become_events(method: str, kinds: tuple[str, ...]) -> None:
    assert serve(method, {"server": "a"}) == events.ListItems(ONE, b"1", kinds, "a")


def test_a_principal_without_the_right_gets_no_method() -> None:
    requests = ControlRequests(METHODS, object.__new__(ControlHandlers))
    for method in METHODS:
        denied = request(method.name, b"[]", principal=USER.without(Right.CONTROL))
        answer = requests.serve(denied)
        assert answer == Failure("unknown_method", f"unknown method {method.name!r}")


# -- another transport ---------------------------------------------------------------------------


class Clock:
    """Handlers of a table of their own."""

    async def time(self, _request: Request, params: api.ShutdownParams) -> Answer:
        return {"time": params.drain}

    def ticks(self, request: Request, _params: api.Params) -> Answer:
        def subscribe(send: Send) -> Any:
            send({"tick": 0})
            self.send = send
            return lambda: setattr(self, "is_over", True)

        return request.follow("clock/tick", subscribe) or {"ticks": 1}

    send: Send
    is_over = False


CLOCK = (
    Method("clock/time", api.ShutdownParams, dict, Clock.time),
    Method("clock/ticks", api.Params, dict, Clock.ticks),
)


async def test_a_transport_needs_no_socket_and_no_mux() -> None:
    """
    A listener for HTTP awaits the same answers.
    """
    requests = ControlRequests(CLOCK, Clock())
    answer = requests.serve(request("clock/time", b'{"drain":2}'))
    assert isinstance(answer, Awaitable)
    assert await answer == {"time": 2.0}


def test_notifications_of_a_stream_wait_for_the_answer() -> None:
    clock, sent = Clock(), list[Any]()
    asked = request("clock/ticks", sent=sent)
    assert ControlRequests(CLOCK, clock).serve(asked) == {"ticks": 1}
    assert asked.is_stream
    assert sent == []
    asked.start_stream()
    clock.send({"tick": 1})
    assert sent == [("clock/tick", {"tick": 0}), ("clock/tick", {"tick": 1})]
    asked.close_stream()
    assert clock.is_over
    assert not asked.is_stream


def test_a_stream_that_the_transport_refuses_is_not_opened() -> None:
    refusal = Failure("rate_limited", "too many")
    asked = request("clock/ticks", refusal=refusal)
    assert ControlRequests(CLOCK, Clock()).serve(asked) == refusal
    assert not asked.is_stream
