"""Calls that somebody is asked about: who is asked, what counts as an answer, what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from mcpd.core.approvals.approval_questions import MOST_OF_SESSION
from mcpd.core.catalog.pins import Rules
from mcpd.core.facts import LATE_YES, CallEnded
from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.entries import Policy, Profile
from mcpd.ids import SessionId
from mcpd.principal import bearer
from tests.unit.core.mux.world import World

FORM = "elicitation"


class Desk(World):
    """A server whose calls are asked about, a session on it, and a person at connection 9."""

    def __init__(self, capability: str = "", fields: str = 'approval="ask"', era: str = "") -> None:
        super().__init__()
        self.run(f"!! server echo {fields} {era}".strip(), "!! start echo", "!! open 9")
        self.run(f"!! join 1 echo {capability}".strip())
        self.last = 100

    def errors(self, lines: list[str], session: int = 1) -> list[Any]:
        """Return the errors that a session got."""
        said = [json.loads(line.split(" ", 2)[2]) for line in self.to(lines, str(session))]
        return [each["error"] for each in said if "error" in each]

    @staticmethod
    def to(lines: list[str], who: str) -> list[str]:
        """Return what somebody was sent."""
        return [line for line in lines if line.startswith(f"<< {who} ")]

    def asked(self) -> list[str]:
        """Return the ids of the questions that are open."""
        return [each.id for each in self.mux.approvals.open()]

    def approve(self, ident: str, answer: str = "once", **more: Any) -> list[str]:
        """Have the person answer."""
        self.last += 1
        params = {"id": ident, "answer": answer, **more}
        request = {"jsonrpc": "2.0", "id": self.last, "method": "mcpd/approve", "params": params}
        return self.run(f">> 9 {json.dumps(request)}")

    def fill(self, question: str, action: str = "accept", **content: Any) -> list[str]:
        """Have the client answer the form that it was sent in a line."""
        number = json.loads(question.split(" ", 2)[2])["id"]
        result = {"action": action} | ({"content": content} if content else {})
        message = {"jsonrpc": "2.0", "id": number, "result": result}
        return self.run(f">> 1 {json.dumps(message)}")

    def apply(self, **policy: Any) -> list[str]:
        """Apply a configuration."""
        entries = tuple(self.entries.values())
        return self.render(self.handle(ev.EntriesChanged(entries, Policy(**policy))))


def arguments(**members: Any) -> dict[str, Any]:
    return {"arguments": members}


# -- where it is asked -----------------------------------------------------------------------------


def test_nothing_configured_is_no_table() -> None:
    """
    The gate costs one comparison then.
    """
    desk = Desk(fields="")
    assert desk.mux._state.asks is None
    assert desk.to(desk.call(1, 1), "echo") and desk.asked() == []


def test_nobody_to_ask_refuses_at_once_and_keeps_the_question() -> None:
    desk = Desk()
    (error,) = desk.errors(desk.call(1, 1))
    assert error["data"]["kind"] == "approval_required" and error["data"]["retryable"]
    assert error["data"]["approval"] == "a1" == desk.asked()[0]
    assert "mcpctl approve a1" in error["message"]
    assert desk.mux.table_sizes()["owed"] == 0


def test_a_form_is_sent_on_the_calls_own_stream_and_the_bytes_are_kept() -> None:
    desk = Desk(FORM)
    said = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write", "arguments":{"a":1.0,  "b":"\\u0061"}}}'
    commands = desk.say("1", said)
    (form,) = [each for each in commands if isinstance(each, cmd.ToSession)]
    assert form.request == b"1" and b"mcpd asks: may test 1 run echo" in form.data  # type: ignore[operator]
    (line,) = desk.render([form])
    sent = [line for line in desk.fill(line, answer="once") if line.startswith("<< echo")]
    assert '{"a":1.0,  "b":"\\u0061"}' in sent[0]


def test_a_call_that_waits_takes_no_place_and_keeps_its_server_in_use() -> None:
    desk = Desk(FORM, 'ask=["write"] max_concurrency=1 call_timeout=1')
    desk.call(1, 1)
    assert desk.to(desk.call(1, 2, "echo"), "echo")
    assert desk.mux.report("echo").in_flight == 2
    assert not desk.errors(desk.run("!! +0.9"))


@pytest.mark.parametrize("content", [{}, {"answer": "yes"}, {"other": "once"}, {"answer": True}])
def test_an_accepted_form_without_a_choice_is_no_answer(content: dict[str, Any]) -> None:
    """
    Programs accept empty forms.
    """
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    desk.run("!! +1")
    assert desk.fill(form, **content) == [] and desk.asked() == ["a1"]
    (error,) = desk.errors(desk.run("!! +300"))
    assert error["data"]["kind"] == "approval_required" and desk.asked() == ["a1"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_sooner_than_a_person_is_the_clients(action: str) -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    (error,) = desk.errors(desk.fill(form, action))
    assert error["data"]["kind"] == "approval_required"
    assert desk.errors(desk.call(1, 2, **arguments(n=1)))[0]["data"]["approval"] == "a2"


def test_a_refusal_after_a_while_is_a_persons() -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    desk.run("!! +0.4")
    (error,) = desk.errors(desk.fill(form, "decline"))
    assert error["data"] == {"kind": "denied", "retryable": False, "server": "echo",
                             "reason": "person", "approval": "a1"}  # fmt: skip
    (again,) = desk.errors(desk.call(1, 2))
    assert again["data"]["kind"] == "denied"
    assert desk.to(desk.call(1, 3, **arguments(n=1)), "1")[0].count("mcpd asks")
    desk.run("!! +600")
    assert desk.to(desk.call(1, 4), "1")


def test_a_dialog_that_is_closed_is_no_answer() -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    desk.run("!! +1")
    (error,) = desk.errors(desk.fill(form, "cancel"))
    assert error["data"]["kind"] == "approval_required" and desk.asked() == ["a1"]
    assert desk.errors(desk.call(1, 2))[0]["data"]["approval"] == "a1"


def test_the_form_says_what_is_left_out_and_offers_no_always_then() -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1, **arguments(text="x" * 200_000, b="\u202e")), "1")
    params = json.loads(form.split(" ", 2)[2])["params"]
    assert len(params["message"]) <= 4000 and "200000 characters" in params["message"]
    assert "⟨U+202E⟩" in params["message"] and "\u202e" not in params["message"]
    choices = params["requestedSchema"]["properties"]["answer"]["enum"]
    assert choices == ["once", "session", "no"]
    desk.run("!! +1")
    assert desk.fill(form, answer="always") == []


def test_progress_keeps_a_client_waiting_that_asked_for_it() -> None:
    """
    Clients restart their timer by it; the values are below whatever the server will say.
    """
    desk = Desk(FORM)
    desk.call(1, 1, _meta={"progressToken": "p"})
    told = [json.loads(line.split(" ", 2)[2])["params"] for line in desk.run("!! +20")]
    assert told == [
        {"progressToken": "p", "progress": n / 1e6, "message": "waiting for approval a1"}
        for n in (1, 2)
    ]


def test_a_listener_makes_the_call_wait() -> None:
    desk = Desk()
    desk.mux.context.approval_listeners = 1
    assert desk.call(1, 1) == []
    answer, sent = desk.approve("a1")
    assert '"applies": "now"' in answer.replace('":"', '": "') and sent.startswith("<< echo")


# -- what comes of it ------------------------------------------------------------------------------


def test_a_late_yes_lets_the_same_call_through_once() -> None:
    desk = Desk()
    desk.call(1, 1, **arguments(a=1, b="x"))
    (answer,) = desk.approve("a1")
    assert "next_call" in answer
    assert desk.errors(desk.call(1, 2, **arguments(a=2, b="x")))
    sent = desk.run(
        '>> 1 {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"write","arguments":'
        '{"b":"\\u0078","a":1.0}}}'
    )
    assert desk.to(sent, "echo")
    assert desk.errors(desk.call(1, 4, **arguments(a=1, b="x")))


def test_a_late_yes_is_good_for_as_long_as_is_configured() -> None:
    desk = Desk()
    desk.apply(approval_keep=5.0)
    desk.call(1, 1)
    desk.approve("a1")
    desk.run("!! +5")
    assert desk.errors(desk.call(1, 2))


def test_what_is_over_says_how_it_ended_and_the_same_answer_twice_is_fine() -> None:
    desk = Desk()
    desk.call(1, 1)
    assert desk.approve("a1") == [each.replace("102", "101") for each in desk.approve("a1")]
    (error,) = desk.errors(desk.approve("a1", "no"), 9)
    assert error["data"]["kind"] == "approval_over" and "once" in error["message"]
    desk.call(1, 2, **arguments(n=1))
    desk.run("!! +600")
    (error,) = desk.errors(desk.approve("a2"), 9)
    assert "in time" in error["message"]


def test_a_call_that_is_given_up_leaves_its_question() -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    (withdrawn,) = desk.run(f">> 1 {cancelled}")
    assert (
        json.loads(withdrawn.split(" ", 2)[2])["params"]["requestId"]
        == json.loads(form.split(" ", 2)[2])["id"]
    )
    assert desk.asked() == ["a1"] and desk.mux.report("echo").in_flight == 0
    desk.approve("a1")
    assert desk.to(desk.call(1, 2), "echo")


def test_one_question_for_a_tool_and_the_rest_waits_behind_it() -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    for ident in range(2, 7):
        assert desk.call(1, ident, **arguments(n=ident)) == []
    after = desk.fill(form, answer="once")
    assert len(desk.to(after, "echo")) == 1 and len(desk.to(after, "1")) == 1
    (form,) = desk.to(after, "1")
    assert len(desk.to(desk.fill(form, answer="session"), "echo")) == 5
    assert desk.mux.table_sizes()["approvals"] == 0


def test_a_no_for_the_session_refuses_all_that_waits() -> None:
    desk = Desk(FORM)
    desk.call(1, 1)
    desk.call(1, 2, **arguments(n=2))
    told = desk.approve("a1", "no", session=True)
    assert [each["data"]["reason"] for each in desk.errors(told)] == ["person", "rule"]


def test_eight_questions_of_a_session() -> None:
    desk = Desk(FORM)
    for n in range(MOST_OF_SESSION):
        assert desk.call(1, n, f"tool{n}")
    (error,) = desk.errors(desk.call(1, 99, "more"))
    assert (error["data"]["kind"], error["data"]["limit"]) == ("rate_limited", "approvals")
    desk.run("!! join 2 echo elicitation")
    assert not desk.errors(desk.call(2, 1, "more"), 2)


def test_eight_questions_that_earlier_sessions_of_a_client_left() -> None:
    """
    A client that comes again and again floods nobody: the oldest of its questions gives way.
    """
    desk = Desk()
    for session in range(20, 32):
        desk.run(f"!! join {session} echo")
        assert desk.errors(desk.call(session, 1, **arguments(n=session)), session)
        desk.run(f"!! close {session}")
    assert desk.asked() == [f"a{number}" for number in range(5, 13)]
    assert desk.errors(desk.call(1, 1)) and len(desk.asked()) == 8


@pytest.mark.parametrize(
    "raw", ['{"p":1,"p":2}', '{"a":{"b":[{"p":1,"p":1}]}}', '{"a":' * 300 + "1" + "}" * 300]
)
def test_arguments_that_two_readers_read_differently_are_refused(raw: str) -> None:
    desk = Desk(FORM)
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":%s}}'
    (error,) = desk.errors(desk.run(f">> 1 {call % raw}"))
    assert error["data"]["kind"] == "invalid_arguments" and desk.asked() == []


def test_what_was_sent_before_is_not_asked_about_again() -> None:
    """
    A read-only call goes to the next process after a crash: it is the approved one.
    """
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1, "echo"), "1")
    desk.fill(form, answer="once")
    desk.run("!! down echo crashed")
    done = desk.run("!! start echo")
    assert desk.to(done, "echo") and not desk.to(done, "1")


def test_reads_and_prompts_are_not_asked_about() -> None:
    desk = Desk(FORM)
    assert desk.to(desk.request(1, 1, "resources/read", uri="file:///x"), "echo")
    assert desk.to(desk.request(1, 2, "prompts/get", name="greet"), "echo")


# -- what is remembered ----------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "others"), [("session", False), ("1h", True), ("always", True)])
def test_a_yes_is_remembered(answer: str, others: bool) -> None:
    desk = Desk()
    desk.run("!! join 2 echo")
    desk.call(1, 1)
    desk.approve("a1", answer)
    assert desk.to(desk.call(1, 2, **arguments(n=1)), "echo")
    assert bool(desk.to(desk.call(2, 1), "echo")) is others
    assert desk.errors(desk.call(1, 3, "echo"))


def test_an_hour_ends() -> None:
    desk = Desk()
    desk.call(1, 1)
    desk.approve("a1", "1h")
    desk.run("!! +3599")
    assert desk.to(desk.call(1, 2), "echo")
    desk.run("!! +1")
    assert desk.errors(desk.call(1, 3)) and desk.mux.approvals.rules() == []


def test_always_goes_on_when_it_is_on_the_disk() -> None:
    desk = Desk(FORM)
    desk.disk = None
    (form,) = desk.to(desk.call(1, 1), "1")
    done = desk.fill(form, answer="always")
    assert desk.to(done, "echo") == [] and desk.asked() == []
    assert desk.errors(desk.approve("a1"), 9)[0]["data"]["kind"] == "approval_over"
    assert desk.to(desk.render(desk.handle(ev.RulesKept(1))), "echo")


def test_a_full_disk_keeps_the_question_open() -> None:
    """
    Who said yes for good is told; the client's own yes lets that one call through.
    """
    desk = Desk()
    desk.disk = "No space left on device"
    desk.call(1, 1)
    (error,) = desk.errors(desk.approve("a1", "always"), 9)
    assert "No space left" in error["message"] and desk.asked() == ["a1"]
    assert desk.mux.approvals.rules() == [] and "next_call" in desk.approve("a1")[0]
    asks = Desk(FORM)
    asks.disk = "No space left on device"
    (form,) = asks.to(asks.call(1, 1), "1")
    assert asks.to(asks.fill(form, answer="always"), "echo")
    assert asks.mux.approvals.rules() == []


def test_an_answer_that_cannot_be_written_leaves_the_one_before_it() -> None:
    desk = Desk()
    desk.call(1, 1)
    desk.call(1, 2, **arguments(n=2))
    desk.approve("a1", "always")
    desk.disk = "No space left on device"
    desk.approve("a2", "1h")
    (rule,) = desk.mux.approvals.rules()
    assert rule.answer == "always" and desk.to(desk.call(1, 3), "echo")
    desk.disk = ""
    desk.approve("a2", "1h")
    (rule,) = desk.mux.approvals.rules()
    assert rule.answer == "1h" and desk.to(desk.call(1, 4), "echo")


def test_another_definition_asks_again_and_the_answer_lapses() -> None:
    desk = Desk()
    desk.call(1, 1)
    desk.approve("a1", "always")
    desk.mux.approvals.pins.pin_of = lambda server, item: b"another"
    desk.call(1, 2)
    (question,) = desk.mux.approvals.open()
    assert "definition changed" in question.reason and question.before is not None
    (rule,) = desk.mux.approvals.rules()
    assert rule.lapsed
    desk.approve("a2", "always")
    (rule,) = desk.mux.approvals.rules()
    assert not rule.lapsed and desk.to(desk.call(1, 3), "echo")


def test_another_command_asks_again() -> None:
    desk = Desk()
    desk.call(1, 1)
    desk.approve("a1", "always")
    desk.run('!! server echo approval="ask" identity="other"')
    assert desk.errors(desk.call(1, 2))
    assert "what is started" in desk.mux.approvals.open()[0].reason


def test_all_tools_are_those_of_that_moment() -> None:
    desk = Desk()
    desk.call(1, 1)
    desk.approve("a1", "always", all_tools=True)
    assert desk.to(desk.call(1, 2, "echo"), "echo")
    assert desk.errors(desk.call(1, 3, "new"))


def test_a_question_ends_in_time_whose_answer_the_disk_refused_late() -> None:
    """
    Its time was over while the answer was being written.
    """
    desk = Desk(FORM)
    desk.call(1, 1)
    desk.disk = None
    desk.approve("a1", "always")
    assert not desk.errors(desk.run("!! +300.5"))
    desk.handle(ev.RulesKept(1, "No space left on device"))
    (error,) = desk.errors(desk.run("!! +1"))
    assert error["data"]["kind"] == "approval_required" and desk.asked() == ["a1"]
    desk.approve("a1", "always")
    desk.run("!! +600")
    desk.handle(ev.RulesKept(2, "No space left on device"))
    desk.run("!! +1")
    assert desk.asked() == []


def test_what_the_disk_refused_is_not_written_with_the_next() -> None:
    """
    Who was told that nothing was approved is asked again, also after a restart.
    """
    desk = Desk()
    desk.disk = None
    desk.call(1, 1)
    desk.call(1, 2, "echo")
    desk.approve("a1", "always")
    desk.approve("a2", "always")
    (kept,) = [
        each for each in desk.handle(ev.RulesKept(1, "full")) if isinstance(each, cmd.KeepRules)
    ]
    assert [rule.tool for rule in kept.rules] == ["echo"]


def test_forgetting_holds_for_a_call_whose_arguments_are_checked() -> None:
    desk = Desk(fields='approval="ask" validates=true')
    desk.call(1, 1)
    desk.approve("a1", "always")
    assert not desk.to(desk.call(1, 2), "echo")
    desk.run('>> 9 {"jsonrpc":"2.0","id":1,"method":"mcpd/forget","params":{"server":"echo"}}')
    (error,) = desk.errors(desk.run("!! valid 1"))
    assert error["data"]["kind"] == "approval_required"


def test_forgetting_holds_for_calls_that_wait() -> None:
    desk = Desk(fields='approval="ask" max_concurrency=1')
    desk.call(1, 1)
    desk.approve("a1", "always")
    desk.call(1, 2)
    assert desk.call(1, 3) == []
    done = desk.run(
        '>> 9 {"jsonrpc":"2.0","id":1,"method":"mcpd/forget","params":{"server":"echo"}}'
    )
    assert '"forgotten":1' in "".join(desk.to(done, "9")).replace(" ", "")
    assert desk.errors(done)[0]["data"]["kind"] == "approval_required"
    assert desk.mux.approvals.rules() == []


def test_what_an_earlier_daemon_remembered_is_taken_up() -> None:
    first = Desk()
    first.call(1, 1)
    first.approve("a1", "always")
    rules = tuple(first.mux.approvals.rules())
    second = Desk()
    second.handle(ev.RulesKnown(rules))
    assert second.to(second.call(1, 1), "echo")
    second.call(1, 2, "echo")
    second.approve("a1", "always")
    assert [rule.id for rule in second.mux.approvals.rules()] == [1, 2]


# -- the configuration, and the end ----------------------------------------------------------------


def test_a_reload_that_asks_no_more_releases() -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    done = desk.run("!! server echo")
    assert desk.to(done, "echo") and "notifications/cancelled" in "".join(desk.to(done, "1"))
    assert desk.fill(form, answer="no") == [] and desk.asked() == []


def test_a_server_that_is_removed_is_not_found() -> None:
    desk = Desk(FORM)
    desk.call(1, 1)
    (error,) = desk.errors(desk.run("!! remove echo"))
    assert error["data"]["kind"] == "server_not_found" and desk.asked() == []


def test_a_reload_of_something_else_keeps_the_question() -> None:
    desk = Desk(FORM, 'approval="writes"')
    desk.call(1, 1)
    assert desk.run('!! server echo approval="writes" queue_timeout=3') == []
    assert desk.asked() == ["a1"]


def test_a_drain_ends_the_wait() -> None:
    desk = Desk(FORM)
    desk.call(1, 1)
    desk.call(1, 2, **arguments(n=1))
    kinds = [each["data"]["kind"] for each in desk.errors(desk.run("!! drain"))]
    assert kinds == ["approval_required"] * 2


def test_a_session_that_ends_takes_its_answers_with_it_and_leaves_its_question() -> None:
    desk = Desk(FORM)
    (form,) = desk.to(desk.call(1, 1), "1")
    desk.fill(form, answer="session")
    desk.call(1, 2, "echo")
    desk.run("!! close 1")
    assert desk.mux.approvals.rules() == [] and desk.asked() == ["a2"]
    desk.run("!! +600")
    sizes = desk.mux.table_sizes()
    assert sizes["approvals"] == 0 and desk.mux.memory.kept_bytes == 0


def test_a_profile_can_only_tighten() -> None:
    desk = Desk(fields="")
    desk.run('!! server tight approval="ask"')
    policy = {"profiles": {"asks": Profile(approval="ask"), "free": Profile(approval="auto")}}
    desk.apply(**policy)
    state = desk.mux._state
    loose, tight = desk.entries["echo"], desk.entries["tight"]
    session = state.sessions[SessionId(1)]
    outside, asks, free = (
        session.principal, session.principal.in_profile("asks"), session.principal.in_profile("free")
    )  # fmt: skip
    assert [state.asks_of(each, loose) is not None for each in (outside, asks, free)] == [
        False, True, False,
    ]  # fmt: skip
    assert all(state.asks_of(each, tight) is not None for each in (outside, asks, free))


def test_a_call_at_a_terminal_is_told_and_answers_itself() -> None:
    desk = Desk()
    params = '{"server":"echo","tool":"write","arguments":{},"approvals":true}'
    assert desk.run(f'>> 9 {{"jsonrpc":"2.0","id":1,"method":"mcpd/call","params":{params}}}') == []
    (question,) = desk.mux.approvals.open()
    assert question.of_call and question.session == 9 and question.waits
    assert any("-- validate" in line for line in desk.approve("a1"))
    assert desk.to(desk.run("!! valid 1"), "echo")


def test_a_question_that_is_asked_again_is_told_again() -> None:
    """
    The first call could ask nobody; who makes it again, at a terminal, is told, and may not answer.
    """
    desk = Desk()
    desk.run("!! show approval-asked", "!! open 8")

    def call(who: int, ident: int, more: str = "") -> list[str]:
        params = '{"server":"echo","tool":"write"' + more + "}"
        head = f'{{"jsonrpc":"2.0","id":{ident},"method":"mcpd/call","params":'
        return desk.run(f">> {who} {head}{params}}}")

    first, again = call(8, 1), call(8, 2)
    other = call(9, 1, ',"approvals":true')
    told = [any("approval-asked" in line for line in lines) for lines in (first, again, other)]
    assert told == [True, False, True] and desk.asked() == ["a1"]
    (question,) = desk.mux.approvals.open()
    assert (question.session, question.waits, question.of_call) == (9, True, True)


def test_the_time_of_a_control_call_runs_while_it_waits() -> None:
    desk = Desk()
    params = '{"server":"echo","tool":"write","timeout":2,"approvals":true}'
    desk.run(f'>> 9 {{"jsonrpc":"2.0","id":1,"method":"mcpd/call","params":{params}}}')
    (error,) = desk.errors(desk.run("!! +2"), 9)
    assert error["data"]["kind"] == "call_timeout" and desk.asked() == ["a1"]


# -- modern clients --------------------------------------------------------------------------------


class Modern(Desk):
    """The same, with a modern client."""

    def __init__(self, era: str = "") -> None:
        World.__init__(self)
        self.run(f'!! server echo approval="ask" {era}'.strip(), "!! start echo", "!! open 9")
        self.run("!! attach 1 echo")
        self.last = 100

    def ask(self, ident: int, **params: Any) -> list[str]:
        """Have the client call ``write``."""
        message = {"jsonrpc": "2.0", "id": ident, "method": "tools/call",
                   "params": {"name": "write", **params}}  # fmt: skip
        return self.run(f">>m 1 elicitation {json.dumps(message)}")

    def state(self, lines: list[str]) -> tuple[str, str]:
        """Return key and state of the one question that the client was sent."""
        (line,) = self.to(lines, "1")
        result = json.loads(line.split(" ", 2)[2])["result"]
        assert result["resultType"] == "input_required"
        ((key, ask),) = result["inputRequests"].items()
        assert ask["params"]["message"].startswith("mcpd asks:")
        return key, result["requestState"]

    def retry(self, ident: int, key: str, state: str, answer: str, **params: Any) -> list[str]:
        responses = {key: {"action": "accept", "content": {"answer": answer}}}
        return self.ask(ident, requestState=state, inputResponses=responses, **params)


@pytest.mark.parametrize("era", ["", "era=modern"])
@pytest.mark.parametrize("answer", ["once", "session", "always"])
def test_a_modern_client_is_asked_by_its_result(era: str, answer: str) -> None:
    desk = Modern(era)
    key, state = desk.state(desk.ask(1, **arguments(a=1)))
    assert desk.errors(desk.retry(2, key, state, answer, **arguments(a=2)))[0]["code"] == -32602
    assert desk.asked() == ["a1"]
    (sent,) = desk.to(desk.retry(3, key, state, answer, **arguments(a=1)), "echo")
    assert "requestState" not in sent and "inputResponses" not in sent
    assert desk.errors(desk.retry(4, key, state, answer, **arguments(a=1)))[0]["code"] == -32602
    desk.run("!! +601")
    assert len(desk.mux.approvals.remembered) == (answer != "once")


@pytest.mark.parametrize("again", ['{"f":1}', '{ "f": 1.0 }', '{"f":2,"f":1}', '{"f":2}'])
def test_a_call_that_is_made_again_for_its_server_is_the_one_that_was_approved(again: str) -> None:
    """
    A legacy server has a page visited first; then its client makes the call again.
    """
    desk = Modern()
    name = "io.modelcontextprotocol/"
    able = f'"{name}clientCapabilities":{{"elicitation":{{"form":{{}},"url":{{}}}}}}'
    meta = f'"_meta":{{"{name}protocolVersion":"2026-07-28",{able}}}'

    def ask(ident: int, given: str, *more: str) -> list[str]:
        params = ",".join(('"name":"write"', f'"arguments":{given}', meta, *more))
        method = '"method":"tools/call"'
        return desk.run(f'>> 1 {{"jsonrpc":"2.0","id":{ident},{method},"params":{{{params}}}}}')

    def result_of(line: str) -> Any:
        return json.loads(line.split(" ", 2)[2])["result"]

    def brings(result: Any, **content: str) -> tuple[str, str]:
        (key,) = result["inputRequests"]
        answers = json.dumps({key: {"action": "accept", "content": content}})
        return f'"requestState":"{result["requestState"]}"', f'"inputResponses":{answers}'

    (form,) = ask(1, '{"f":1}')
    (sent,) = ask(2, '{"f":1}', *brings(result_of(form), answer="once"))
    page = {"mode": "url", "elicitationId": "e", "url": "https://x", "message": "go"}
    error = {"code": -32042, "message": "go", "data": {"elicitations": [page]}}
    answer = {"jsonrpc": "2.0", "id": json.loads(sent.split(" ", 2)[2])["id"], "error": error}
    (visit,) = desk.run(f">> echo {json.dumps(answer)}")
    is_sent = bool(desk.to(ask(3, again, *brings(result_of(visit))), "echo"))
    assert is_sent == (again in ('{"f":1}', '{ "f": 1.0 }'))


def test_a_modern_client_that_waits_for_the_disk() -> None:
    desk = Modern()
    desk.disk = None
    key, state = desk.state(desk.ask(1))
    assert desk.retry(2, key, state, "always") == []
    assert desk.to(desk.render(desk.handle(ev.RulesKept(1))), "echo")


def test_a_modern_no_is_told_to_the_call_that_brings_it() -> None:
    desk = Modern()
    key, state = desk.state(desk.ask(1))
    (error,) = desk.errors(desk.retry(2, key, state, "no"))
    assert error["data"]["kind"] == "denied" and error["data"]["reason"] == "person"


def test_a_modern_form_without_a_choice_is_not_shown_again() -> None:
    """
    A client that accepts empty forms would go on for ever.
    """
    desk = Modern()
    key, state = desk.state(desk.ask(1))
    desk.run("!! +1")
    (error,) = desk.errors(desk.retry(2, key, state, "perhaps"))
    assert error["data"]["kind"] == "approval_required" and desk.asked() == ["a1"]


def test_a_late_yes_serves_a_modern_client() -> None:
    desk = Modern()
    key, state = desk.state(desk.ask(1))
    assert "next_call" in desk.approve("a1")[0]
    assert desk.to(desk.ask(2), "echo")
    assert desk.state(desk.retry(3, key, state, "once"))[1] != state


def test_a_servers_own_question_is_not_asked_about() -> None:
    """
    The call that brings a modern server its answers is the one that was approved; another is not.
    """
    desk = Modern("era=modern")
    key, state = desk.state(desk.ask(1))
    (sent,) = desk.to(desk.retry(2, key, state, "once"), "echo")
    wire_id = json.loads(sent.split(" ", 2)[2])["id"]
    wanted = {"q": {"method": "elicitation/create", "params": {"message": "why?"}}}
    desk.answer("echo", wire_id, {"resultType": "input_required", "inputRequests": wanted,
                                  "requestState": "its own"})  # fmt: skip
    answers = {"q": {"action": "accept", "content": {}}}
    assert "mcpd asks" in desk.ask(3, requestState="forged", inputResponses=answers)[0]
    (sent,) = desk.to(desk.ask(4, requestState="its own", inputResponses=answers), "echo")
    assert "its own" in sent


def test_a_retry_whose_arguments_have_a_member_twice_is_another_call() -> None:
    """
    Its person saw the last one of them, and a server may take the first.
    """
    desk = Modern()
    key, state = desk.state(desk.ask(1, **arguments(path="/tmp/x")))
    params = (
        '"name":"write","arguments":{"path":"/etc/passwd","path":"/tmp/x"},'
        f'"requestState":{json.dumps(state)},"inputResponses":{{"{key}":{{"action":"accept",'
        '"content":{"answer":"once"}}}'
    )
    call = f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{{params}}}}}'
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    whole = call[:-2] + f',"_meta":{json.dumps(meta)}' + "}}"
    (error,) = desk.errors(desk.run(f">> 1 {whole}"))
    assert error["code"] == -32602 and desk.asked() == ["a1"]


# -- what changes while a call waits to be sent ------------------------------------------------------


def waiting(fields: str = 'approval="ask" max_concurrency=1', answer: str = "once") -> Desk:
    """Return a desk where an approved call waits for room behind another one."""
    desk = Desk(fields=fields)
    desk.mux.context.approval_listeners = 1
    desk.call(1, 1, "echo")
    desk.approve("a1")
    desk.call(1, 2, **arguments(n=1))
    assert not desk.to(desk.approve("a2", answer), "echo")
    return desk


def test_a_reload_decides_again_about_a_call_that_waits() -> None:
    desk = waiting()
    told = desk.run('!! server echo approval="ask" max_concurrency=1 deny=write')
    (error,) = desk.errors(told)
    assert error["data"]["kind"] == "tool_not_found"
    assert desk.mux.table_sizes()["queued"] == 0


def test_another_definition_asks_again_about_a_call_that_waits() -> None:
    """
    Somebody approved it for what the tool was when it was asked about.
    """
    desk = waiting()
    changed = [{"name": "write", "description": "now it sends", "inputSchema": {}}]
    listed = json.dumps({"jsonrpc": "2.0", "id": 4, "result": {"tools": changed}})
    desk.run('>> echo {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    desk.run("!! +0.3")
    desk.request(1, 3, "tools/list")
    desk.run(f">> echo {listed}")
    assert desk.asked() == ["a3"] and desk.mux.table_sizes()["queued"] == 0


def test_another_command_asks_again_about_a_call_that_waits() -> None:
    desk = waiting()
    desk.run('!! server echo approval="ask" identity="other" launch=other', "!! start echo")
    assert desk.asked() == ["a3"]


def test_a_no_for_the_session_ends_what_a_yes_has_let_through() -> None:
    desk = Desk(fields='approval="ask" max_concurrency=1')
    desk.mux.context.approval_listeners = 1
    desk.call(1, 1)
    desk.approve("a1")
    desk.call(1, 2, **arguments(n=2))  # asked about
    desk.run("!! join 2 echo")
    desk.call(2, 1)
    desk.approve("a3", "always")
    assert desk.call(1, 3, **arguments(n=3)) == []  # behind the question
    told = desk.approve("a2", "no", session=True)
    assert [each["data"]["reason"] for each in desk.errors(told)] == ["person", "rule"]


def test_a_yes_that_is_forgotten_holds_for_no_call_that_an_older_one_let_through() -> None:
    """
    A newer answer had taken the place of the one that let the call through.
    """
    desk = Desk(fields='approval="ask" max_concurrency=1')
    desk.call(1, 1)
    desk.call(1, 2, **arguments(n=2))
    desk.approve("a1", "session")
    assert desk.to(desk.call(1, 3), "echo")
    assert desk.call(1, 4) == []  # it waits for the one before it
    desk.approve("a2", "session")
    desk.run('>> 9 {"jsonrpc":"2.0","id":1,"method":"mcpd/forget","params":{}}')
    assert desk.asked() == ["a3"]


def test_a_yes_that_is_forgotten_holds_for_no_call_whose_arguments_are_checked() -> None:
    desk = Desk(fields='approval="ask" validates=true')
    desk.call(1, 1)
    desk.approve("a1", "always")
    desk.call(1, 2)
    desk.run('>> 9 {"jsonrpc":"2.0","id":1,"method":"mcpd/forget","params":{}}')
    (error,) = desk.errors(desk.run("!! valid 1"))
    assert error["data"]["kind"] == "approval_required"


# -- a no, and a yes ---------------------------------------------------------------------------------


def test_a_no_to_a_call_is_stronger_than_a_yes_for_its_tool() -> None:
    """
    ``no``: the same call of that session is refused without asking.
    """
    desk = Desk()
    desk.call(1, 1, **arguments(n=1))
    desk.call(1, 2, **arguments(n=2))
    desk.approve("a1", "no")
    desk.approve("a2", "always")
    assert desk.errors(desk.call(1, 3, **arguments(n=1)))[0]["data"]["reason"] == "person"
    assert desk.to(desk.call(1, 4, **arguments(n=2)), "echo")


def test_a_no_for_the_session_is_stronger_than_a_yes_for_good() -> None:
    desk = Desk()
    desk.call(1, 1, **arguments(n=1))
    desk.call(1, 2, **arguments(n=2))
    desk.approve("a1", "always")
    desk.approve("a2", "no", session=True)
    assert desk.errors(desk.call(1, 3, **arguments(n=3)))[0]["data"]["reason"] == "rule"
    desk.run("!! join 2 echo")
    assert desk.to(desk.call(2, 1), "echo")


def test_a_client_that_is_gone_is_asked_about_no_call_that_waited_behind_another() -> None:
    """
    A newer call may be asked about before an older one: when both waited for their server.
    """
    desk = Desk(FORM)
    desk.call(1, 1)
    desk.call(1, 2, **arguments(n=2))
    requests = desk.mux._state.sessions[SessionId(1)].requests
    requests[b"1"] = requests.pop(b"1")
    assert desk.to(desk.run("!! close 1"), "1") == [] and desk.asked() == ["a1"]


@pytest.mark.parametrize("answer", ["session", "no"])
def test_nothing_is_remembered_for_a_session_that_is_gone(answer: str) -> None:
    desk = Desk()
    desk.call(1, 1)
    desk.run("!! close 1")
    desk.approve("a1", answer)
    assert desk.mux.approvals.rules() == [] and desk.asked() == []


def test_a_question_of_another_session_counts_for_the_one_that_takes_it_over() -> None:
    desk = Desk()
    desk.run("!! join 2 echo")
    desk.call(2, 1, "tool")
    for n in range(MOST_OF_SESSION):
        desk.call(1, n, **arguments(n=n))
    (error,) = desk.errors(desk.call(1, 99, "tool"))
    assert (error["data"]["kind"], error["data"]["limit"]) == ("rate_limited", "approvals")


def test_pins_that_are_turned_on_forget_no_answer() -> None:
    """
    It is the same definition, whether it is pinned or not.
    """
    desk = Desk()
    desk.call(1, 1)
    desk.approve("a1", "always")
    (entry,) = desk.entries.values()
    rules = Rules(identity="echo", pin="warn")
    desk.entries["echo"] = structs.replace(entry, rules=rules)
    desk.apply()
    assert desk.to(desk.call(1, 2), "echo")


# -- whoever calls, however ----------------------------------------------------------------------------


class Doors(Desk):
    """A server that is asked about, one session of each kind, and control calls."""

    def __init__(self) -> None:
        super().__init__()
        self.run("!! join 2", "!! attach 3 echo")
        for number, is_brief in ((4, False), (5, True)):
            ident = SessionId(number)
            self.handle(ev.SessionOpened(ident, bearer("laptop")))
            state = None if is_brief else SessionState(version="2025-11-25")
            self.handle(ev.Join(ident, "echo", state, is_brief=is_brief))

    def through(self, door: str) -> list[str]:
        """Call ``write`` in one of the ways in which it can be called."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "write", "arguments": {"door": door}}}  # fmt: skip
        match door:
            case "aggregate":
                return self.call(2, 1, "echo__write", **arguments(door=door))
            case "control":
                params = {"server": "echo", "tool": "write", "arguments": {"door": door}}
                asked = {"jsonrpc": "2.0", "id": 1, "method": "mcpd/call", "params": params}
                return self.run(f">> 9 {json.dumps(asked)}")
            case "modern" | "session-less":
                session = 3 if door == "modern" else 5
                return self.run(f">>m {session} - {json.dumps(call)}")
        return self.call({"own": 1, "http": 4}[door], 1, **arguments(door=door))


@pytest.mark.parametrize("door", ["own", "aggregate", "control", "http", "session-less", "modern"])
def test_no_way_goes_around_it(door: str) -> None:
    doors = Doors()
    (refused,) = doors.through(door)
    assert "approval_required" in refused and doors.asked() == ["a1"]


def test_a_yes_is_of_its_principal() -> None:
    """
    What is said for the socket is not said for a token.
    """
    doors = Doors()
    doors.call(1, 1)
    doors.approve("a1", "always")
    assert doors.to(doors.call(2, 1, "echo__write"), "echo")
    (error,) = doors.errors(doors.call(4, 1), 4)
    assert error["data"]["kind"] == "approval_required"


def test_a_yes_is_of_its_server() -> None:
    """
    A tool of that name that another server has now is another tool.
    """
    desk = Desk()
    desk.run('!! server other approval="ask"', "!! start other", "!! join 2 other")
    desk.call(1, 1)
    desk.approve("a1", "always")
    assert desk.errors(desk.call(2, 1), 2) and desk.asked() == ["a2"]


def test_what_was_given_up_and_what_a_late_yes_let_through_are_recorded() -> None:
    desk = Desk()
    desk.mux.context.tells_calls = True
    desk.mux.context.approval_listeners = 1
    desk.call(1, 1)
    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    done = desk.say("1", cancelled)
    desk.approve("a1")
    (sent,) = desk.call(1, 2)
    done += desk.answer("echo", json.loads(sent.split(" ", 2)[2])["id"])
    ended = [each for each in done if isinstance(each, CallEnded)]
    assert [each.outcome for each in ended] == ["cancelled", "answered"]
    assert (ended[1].flags, ended[1].approval) == (LATE_YES, 1)


def test_who_listens_can_still_answer_when_a_client_declines_by_itself() -> None:
    desk = Desk(FORM)
    desk.mux.context.approval_listeners = 1
    (form,) = desk.to(desk.call(1, 1), "1")
    assert desk.fill(form, "decline") == [] and desk.asked() == ["a1"]
    assert desk.to(desk.approve("a1"), "echo")
    assert desk.call(1, 2, **arguments(n=1)) == [] and desk.asked() == ["a2"]


def test_a_member_twice_passes_where_nobody_is_asked() -> None:
    desk = Desk(fields="")
    call = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":'
        '{"p":1,"p":2}}}'
    )
    (sent,) = desk.run(f">> 1 {call}")
    assert sent.startswith("<< echo") and '{"p":1,"p":2}' in sent


def test_an_answer_to_a_servers_own_question_releases_nothing() -> None:
    """
    It asks in our words; it gets the answer itself, and nothing else does.
    """
    desk = Desk(FORM, 'ask=["write"]')
    desk.call(1, 1, "echo")
    desk.call(1, 2)
    words = {"message": "mcpd asks: may test 1 run echo?", "requestedSchema": {"type": "object"}}
    asked = {"jsonrpc": "2.0", "id": 70, "method": "elicitation/create", "params": words}
    (form,) = desk.to(desk.run(f">> echo {json.dumps(asked)}"), "1")
    done = desk.fill(form, answer="always")
    assert [json.loads(line.split(" ", 2)[2])["id"] for line in done] == [70]
    assert desk.asked() == ["a1"]


def test_hints_count_as_they_were_approved() -> None:
    """
    A tool that says that it only reads, since a while, is asked about.
    """
    desk = Desk(fields='approval="writes"')
    (entry,) = desk.entries.values()
    held = Rules(identity="echo", pin="hold")
    desk.entries["echo"] = structs.replace(entry, rules=held, launch="echo-2")
    desk.apply()
    desk.run("!! start echo")
    assert desk.to(desk.call(1, 1, "echo"), "echo")  # it has always said so
    hints = {"readOnlyHint": True}
    tools = [
        {"name": "echo", "inputSchema": {"type": "object"}, "annotations": hints},
        {"name": "write", "inputSchema": {"type": "object"}, "annotations": hints},
    ]
    told = desk.run('>> echo {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    told += desk.run("!! +1")
    listed = next(line for line in desk.to(told, "echo") if "tools/list" in line)
    ident = json.loads(listed.split(" ", 2)[2])["id"]
    answer = {"jsonrpc": "2.0", "id": ident, "result": {"tools": tools}}
    desk.run(f">> echo {json.dumps(answer)}")
    (error,) = desk.errors(desk.call(1, 3))
    assert error["data"]["kind"] == "approval_required"
