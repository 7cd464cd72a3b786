"""The one way to a server: what is admitted, and what becomes of a request that is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.core.downstream.admission import ADMITTED, NOT_ASKED, NOT_SENT, Admission
from mcpd.core.facts import CallEnded, CallFact, CallStarted, CallWaited, Failure
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.introduction import TASKS_EXTENSION
from mcpd.core.mcp.methods import CLIENT_REQUESTS, Method, Route
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.ids import SessionId
from tests.unit.core.mux.world import World

CALL = CLIENT_REQUESTS["tools/call"]
PARAMS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "write", "arguments": {}},
    "prompts/get": {"name": "greet"},
    "resources/read": {"uri": "file:///x"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "who", "value": ""},
    },
    "tasks/get": {"taskId": "1"},
    "tasks/update": {"taskId": "1"},
    "tasks/cancel": {"taskId": "1"},
    "logging/setLevel": {"level": "debug"},
    "resources/subscribe": {"uri": "file:///x"},
    "resources/unsubscribe": {"uri": "file:///x"},
    "subscriptions/listen": {"notifications": {"resourceSubscriptions": ["file:///x"]}},
}
"""Parameters with which a request is sent on, or answered."""

SENT = [method for method in CLIENT_REQUESTS.values() if method.route in ADMITTED]
DENIED = Failure("server_busy", "not today", "echo")
TASKS = '{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"%s":{}}}}'


class Hall(World):
    """One server that can do what a method needs, and a session on its endpoint."""

    def __init__(self, method: Method, fields: str = "") -> None:
        super().__init__()
        self.method = method
        if method.is_legacy:
            self.run(f"!! server echo {fields}".strip(), "!! start echo", "!! join 1 echo")
            return
        result = TASKS % TASKS_EXTENSION
        self.run(
            "!! server echo era=modern",
            "!! up echo",
            f'>> echo {{"jsonrpc":"2.0","id":1,"result":{result}}}',
            '>> echo {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}',
            "!! attach 1 echo",
        )

    def send(self, ident: int = 1) -> list[str]:
        """Have the session send the request."""
        name, params = self.method.name, PARAMS.get(self.method.name, {})
        message = {"jsonrpc": "2.0", "id": ident, "method": name, "params": params}
        mark = ">>" if self.method.is_legacy else ">>m"
        declared = "" if self.method.is_legacy else "- "
        return self.run(f"{mark} 1 {declared}{json.dumps(message)}")

    def facts(self, line: str) -> list[CallFact]:
        """Have something happen; return the facts of calls."""
        facts: list[CallFact] = []
        handle = self.mux.handle

        def heard(event: ev.Event, now: float) -> list[cmd.Command]:
            done = handle(event, now)
            told = [each.fact for each in done if isinstance(each, cmd.Tell)]
            facts.extend(each for each in told if isinstance(each, CallFact))
            return [each for each in done if not isinstance(each, cmd.Tell)]

        self.mux.handle = heard  # type: ignore[method-assign]
        self.run(line)
        self.mux.handle = handle  # type: ignore[method-assign]
        return facts


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Deny everything; return the methods that were asked about."""
    asked: list[str] = []

    def admit(self: Admission, leg: UpstreamRequest, entry: Entry) -> Failure:
        asked.append(leg.method.name)
        return DENIED

    monkeypatch.setattr(Admission, "admit", admit)
    return asked


@pytest.mark.parametrize("method", CLIENT_REQUESTS.values(), ids=lambda method: method.name)
def test_each_method_has_a_verdict(method: Method):
    """
    A method that is added passes the gate, or says why no server gets it.
    """
    assert (method.route in ADMITTED) != (method.route in NOT_SENT)


@pytest.mark.parametrize("method", SENT, ids=lambda method: method.name)
def test_what_is_admitted_is_sent(method: Method):
    assert any(line.startswith("<< echo") for line in Hall(method).send())


@pytest.mark.parametrize("method", SENT, ids=lambda method: method.name)
def test_each_method_is_asked_about_or_says_why_not(method: Method):
    """
    Where every call is asked about, no call reaches a server unasked.
    """
    assert (method.route is Route.TOOL) != (method.route in NOT_ASKED)
    hall = Hall(method, 'approval="ask"')
    is_sent = any(line.startswith("<< echo") for line in hall.send())
    assert is_sent is (method.route in NOT_ASKED)
    assert len(hall.mux.approvals.open()) == (method.route is Route.TOOL)


@pytest.mark.parametrize("method", SENT, ids=lambda method: method.name)
def test_what_is_denied_reaches_no_server(method: Method, denied: list[str]):
    hall = Hall(method)
    (answer,) = hall.send()
    assert denied == [method.name]
    assert answer.startswith("<< 1") and "not today" in answer
    assert hall.mux.table_sizes()["owed"] == 0


@pytest.mark.parametrize(
    "control",
    [
        '"mcpd/call","params":{"server":"echo","tool":"write"}',
        '"mcpd/read","params":{"server":"echo","uri":"file:///x"}',
        '"mcpd/prompt","params":{"server":"echo","name":"greet"}',
    ],
)
def test_people_are_denied_as_clients_are(control: str, denied: list[str]):
    hall = Hall(CALL)
    hall.run("!! open 9")
    (answer,) = hall.run(f'>> 9 {{"jsonrpc":"2.0","id":1,"method":{control}}}')
    assert len(denied) == 1
    assert answer.startswith("<< 9") and "not today" in answer


def test_a_call_that_moves_to_another_process_is_decided_about_again():
    """
    What was admitted is not admitted for ever: the entry may say something else by now.
    """
    hall = Hall(CALL)
    hall.run("!! down echo crashed")
    assert not any(line.startswith("<<") for line in hall.send())
    done = hall.run("!! server echo launch=echo-2 deny=write")
    assert any("tool_not_found" in line for line in done)


def test_the_next_round_of_a_call_is_decided_about_again(monkeypatch: pytest.MonkeyPatch):
    """
    A modern server asks in its result, and is called again with the answers.
    """
    hall = World()
    hall.run("!! server echo era=modern", "!! start echo", "!! join 1 echo elicitation")
    hall.call(1, 1)
    wanted = {"a": {"method": "elicitation/create", "params": {"message": "why?"}}}
    result = {"resultType": "input_required", "inputRequests": wanted}
    hall.answer("echo", 4, result)
    monkeypatch.setattr(Admission, "admit", lambda self, leg, entry: DENIED)
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"action": "cancel"}}
    (line,) = hall.run(f">> 1 {json.dumps(answer)}")
    assert line.startswith("<< 1") and "not today" in line


# -- facts of calls --------------------------------------------------------------------------------


def listened(fields: str = "") -> Hall:
    """Return a hall where something listens for the facts of calls."""
    hall = Hall(CALL, fields)
    hall.mux.context.tells_calls = True
    return hall


REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}'
ONE = SessionId(1)
THE_CALL = (ONE, "echo", "tools/call", "write")


def test_without_a_listener_there_are_no_facts_of_calls():
    assert Hall(CALL).facts(f">> 1 {REQUEST}") == []


@pytest.mark.parametrize(
    ("how", "outcome", "kind", "size"),
    [
        ('>> echo {"jsonrpc":"2.0","id":3,"result":{"content":[]}}', "answered", None, 14),
        ('>> echo {"jsonrpc":"2.0","id":3,"result":{"isError":true}}', "error", None, 16),
        ('>> echo {"jsonrpc":"2.0","id":3,"error":{"code":1}}', "error", None, 10),
        ('>> echo {"jsonrpc":"2.0","id":3}', "failed", "invalid_message", 0),
        ("!! down echo crashed", "failed", "server_crashed", 0),
        (
            '>> 1 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
            "cancelled",
            None,
            0,
        ),
        ("!! close 1", "cancelled", None, 0),
    ],
)
def test_a_call_starts_and_ends(how: str, outcome: str, kind: str | None, size: int):
    hall = listened()
    assert hall.facts(f">> 1 {REQUEST}") == [CallStarted(*THE_CALL)]
    hall.run("!! +1.5")
    request = len(b'{"name":"write"}')
    assert hall.facts(how) == [CallEnded(*THE_CALL, outcome, kind, 1.5, request, size)]


def test_a_call_that_times_out_ends_once():
    hall = listened("call_timeout=2")
    hall.run(f">> 1 {REQUEST}")
    (fact,) = hall.facts("!! +2")
    assert isinstance(fact, CallEnded)
    assert (fact.outcome, fact.kind) == ("timed_out", "call_timeout")
    assert hall.facts('>> echo {"jsonrpc":"2.0","id":3,"result":{}}') == []


def test_a_call_that_had_to_wait_says_how_long():
    hall = listened()
    hall.run("!! down echo crashed")
    assert hall.facts(f">> 1 {REQUEST}") == [CallStarted(*THE_CALL)]
    hall.run("!! +3")
    assert hall.facts("!! start echo") == [CallWaited(*THE_CALL, 3.0)]


def test_a_call_that_is_denied_ends_as_well():
    started, ended = listened("deny=write").facts(f">> 1 {REQUEST}")
    assert started == CallStarted(*THE_CALL)
    assert isinstance(ended, CallEnded) and ended.outcome == "refused"
