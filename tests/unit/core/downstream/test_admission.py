"""The one way to a server: what is admitted, and what becomes of a request that is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.audit.record import FLAGS, flags_of
from mcpd.core.downstream.admission import ADMITTED, NOT_ASKED, NOT_SENT, Admission
from mcpd.core.facts import FLAGGED, LATE_YES, QUEUED, RETRIED, SANITISED, CallEnded, Failure
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.introduction import TASKS_EXTENSION
from mcpd.core.mcp.methods import CLIENT_REQUESTS, Method, Route
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import Session
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

    def ended(self, *lines: str) -> list[CallEnded]:
        """Have things happen; return the calls whose end was reported."""
        ended: list[CallEnded] = []
        handle = self.mux.handle

        def heard(event: ev.Event, now: float) -> list[cmd.Command]:
            done = handle(event, now)
            ended.extend(each for each in done if isinstance(each, CallEnded))
            return [each for each in done if not isinstance(each, CallEnded)]

        self.mux.handle = heard  # type: ignore[method-assign]
        self.run(*lines)
        self.mux.handle = handle  # type: ignore[method-assign]
        return ended


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Deny everything; return the methods that were asked about."""
    asked: list[str] = []

    def admit(self: Admission, leg: UpstreamRequest, session: Session, entry: Entry) -> Failure:
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
    monkeypatch.setattr(Admission, "admit", lambda self, leg, session, entry: DENIED)
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"action": "cancel"}}
    (line,) = hall.run(f">> 1 {json.dumps(answer)}")
    assert line.startswith("<< 1") and "not today" in line


# -- the ends of calls that are recorded -------------------------------------------------------------


def recorded(fields: str = "", method: Method = CALL) -> Hall:
    """Return a hall where calls are recorded."""
    hall = Hall(method, fields)
    hall.mux.context.tells_calls = True
    return hall


REQUEST = (
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"a": 1}}}'
)
PARAMS_BYTES = len(b'{"name":"write","arguments":{"a": 1}}')
ONE = SessionId(1)
ANSWER = '>> echo {"jsonrpc":"2.0","id":3,"result":{"content":[]}}'


def test_where_calls_are_not_recorded_nothing_is_made_of_them():
    assert Hall(CALL).ended(f">> 1 {REQUEST}", ANSWER) == []


@pytest.mark.parametrize(
    ("how", "outcome", "kind", "result"),
    [
        (ANSWER, "answered", None, b'{"content":[]}'),
        (
            '>> echo {"jsonrpc":"2.0","id":3,"result":{"isError":true}}',
            "error",
            None,
            b'{"isError":true}',
        ),
        ('>> echo {"jsonrpc":"2.0","id":3,"error":{"code":1}}', "error", None, b'{"code":1}'),
        ('>> echo {"jsonrpc":"2.0","id":3}', "failed", "invalid_message", b""),
        ("!! down echo crashed", "failed", "server_crashed", b""),
        (
            '>> 1 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
            "cancelled",
            None,
            b"",
        ),
        ("!! close 1", "cancelled", None, b""),
    ],
)
def test_the_end_of_a_call_is_reported(how: str, outcome: str, kind: str | None, result: bytes):
    hall = recorded()
    assert hall.ended(f">> 1 {REQUEST}", "!! +1.5") == []
    (call,) = hall.ended(how)
    assert (call.session, call.principal.label, call.server) == (ONE, "local", "echo")
    assert (call.method, call.name, call.outcome, call.kind) == (
        "tools/call",
        "write",
        outcome,
        kind,
    )
    assert (call.duration_s, call.wait_s) == (1.5, 0.0)
    assert (call.request_bytes, call.result_bytes) == (PARAMS_BYTES, len(result))
    assert bytes(call.arguments or b"") == b'{"a": 1}'
    assert bytes(call.result or b"") == result
    assert (call.pin, call.approval, call.flags) == (None, 0, 0)


def test_a_call_that_times_out_ends_once():
    hall = recorded("call_timeout=2")
    hall.run(f">> 1 {REQUEST}")
    (call,) = hall.ended("!! +2")
    assert (call.outcome, call.kind) == ("timed_out", "call_timeout")
    assert hall.ended('>> echo {"jsonrpc":"2.0","id":3,"result":{}}') == []


def test_a_call_that_had_to_wait_says_how_long():
    hall = recorded()
    hall.run("!! down echo crashed")
    assert hall.ended(f">> 1 {REQUEST}", "!! +3", "!! start echo", "!! +1") == []
    (call,) = hall.ended("!! close 1")
    assert (call.wait_s, call.duration_s, call.flags) == (3.0, 4.0, 0)


def test_a_call_that_waits_for_room_is_queued():
    hall = recorded("max_concurrency=1")
    second = REQUEST.replace('"id":1', '"id":2')
    hall.run(f">> 1 {REQUEST}", f">> 1 {second}", "!! +1")
    (first,) = hall.ended(ANSWER)
    (call,) = hall.ended(ANSWER.replace('"id":3', '"id":4'))
    assert (first.flags, call.flags, call.wait_s) == (0, QUEUED, 1.0)


def test_a_read_that_a_second_process_answers_is_retried():
    """
    How long it waited counts until it was first sent.
    """
    hall = recorded(method=CLIENT_REQUESTS["resources/read"])
    hall.send()
    hall.run("!! +2", "!! down echo crashed", "!! start echo")
    (call,) = hall.ended("!! close 1")
    assert (call.method, call.name, call.flags) == ("resources/read", None, RETRIED)
    assert (call.wait_s, call.duration_s) == (0.0, 2.0)
    assert bytes(call.arguments or b"") == b'"file:///x"'


def test_a_call_that_is_denied_is_reported_with_the_kind():
    (call,) = recorded("deny=write").ended(f">> 1 {REQUEST}")
    assert (call.outcome, call.kind, call.server) == ("refused", "tool_not_found", "echo")
    assert call.request_bytes == PARAMS_BYTES


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ('"tools/call","params":{"name":7}', "invalid_params"),
        ('"tools/call","params":{}', "invalid_params"),
    ],
)
def test_a_call_that_no_server_gets_is_reported(asked: str, kind: str):
    (call,) = recorded().ended(f'>> 1 {{"jsonrpc":"2.0","id":1,"method":{asked}}}')
    assert (call.outcome, call.kind, call.name) == ("refused", kind, None)
    assert call.client != "mcpctl"


def test_what_is_given_up_before_a_server_is_found_for_it_is_reported():
    """
    It waits in the aggregate for what a server lists that has never run.
    """
    hall = World()
    hall.mux.context.tells_calls = True
    hall.run("!! server echo", "!! join 1")
    call = REQUEST.replace("write", "echo__write")
    hall.run(f">> 1 {call}")
    ended = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    said = hall.say("1", ended.encode())
    (call_ended,) = [each for each in said if isinstance(each, CallEnded)]
    assert call_ended.outcome == "cancelled" and bytes(call_ended.arguments or b"") == b'{"a": 1}'


def test_a_read_of_what_no_server_has_is_reported():
    hall = World()
    hall.mux.context.tells_calls = True
    hall.run("!! server echo", "!! start echo resources", "!! join 1")
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///x"}}
    done = hall.say("1", json.dumps(read).encode())
    todo = [each for each in done if isinstance(each, cmd.ToServer)]
    for each in todo:
        kind = "resourceTemplates" if b"templates" in each.data else "resources"
        done += hall.answer("echo", each.wire_id, {kind: []})
    (ended,) = [each for each in done if isinstance(each, CallEnded)]
    assert (ended.method, ended.outcome) == ("resources/read", "refused")


def test_a_control_call_to_no_server_is_reported():
    hall = World()
    hall.mux.context.tells_calls = True
    hall.run("!! open 9")
    params = {"server": "none", "tool": "write", "arguments": {}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "mcpd/call", "params": params}
    said = hall.say("9", json.dumps(call).encode())
    (ended,) = [each for each in said if isinstance(each, CallEnded)]
    assert (ended.kind, ended.name) == ("server_not_found", "write")


def test_requests_that_are_no_calls_are_not_reported():
    hall = recorded()
    assert hall.ended('>> 1 {"jsonrpc":"2.0","id":1,"method":"tools/list"}') == []
    assert hall.ended('>> 1 {"jsonrpc":"2.0","id":2,"method":"nope/nope"}') == []


def test_while_calls_are_suspended_none_is_sent():
    """
    ``audit_required``: what cannot be recorded does not run, and that is recorded.
    """
    hall = recorded()
    hall.mux.context.suspension = DENIED
    (call,) = hall.ended(f">> 1 {REQUEST}")
    assert (call.outcome, call.kind) == ("refused", DENIED.kind)
    hall.mux.context.suspension = None
    (line,) = hall.run(f">> 1 {REQUEST}")
    assert line.startswith("<< echo")


def test_flags_are_the_bits_that_the_audit_names():
    bits = (RETRIED, SANITISED, FLAGGED, LATE_YES, QUEUED)
    assert [flags_of(bit) for bit in bits] == [[name] for name in FLAGS]


@pytest.mark.parametrize("fields", ["deny=write", 'ask=["write"]'])
@pytest.mark.parametrize(
    "params",
    [
        '{"name":"write","name":"echo"}',
        '{"name":"echo","Name":"write"}',
        '{"name":"echo","Arguments":{}}',
    ],
)
def test_a_call_that_its_server_may_read_differently_is_denied(fields: str, params: str):
    """
    The tool that is decided about is the one that runs.
    """
    hall = Hall(CALL, fields)
    (line,) = hall.run(f'>> 1 {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}')
    assert "invalid_arguments" in line and line.startswith("<< 1")


def test_where_nothing_is_denied_a_call_is_sent_as_it_came():
    hall = Hall(CALL)
    params = '{"name":"write","name":"echo"}'
    (line,) = hall.run(f'>> 1 {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}')
    assert line.startswith("<< echo") and params in line
