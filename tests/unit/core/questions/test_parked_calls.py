"""ParkedCalls calls, where a transcript would hide what matters; the rest is in ``questions/parked*``."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.core.mux.world import World

ELICIT = {"message": "why?"}


class Parking(World):
    """Modern sessions of a legacy server, and handles as they come."""

    def __init__(self, *fields: str) -> None:
        super().__init__()
        self.run(" ".join(("!! server echo", *fields)), "!! start echo")

    def ask(self, ident: Any, method: str = "elicitation/create", **params: Any) -> list[str]:
        """Have the server ask."""
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params or ELICIT}
        return self.run(">> echo " + json.dumps(message))

    def reply(self, wire_id: int, **what: Any) -> list[str]:
        """Have the server answer a call."""
        return self.run(">> echo " + json.dumps({"jsonrpc": "2.0", "id": wire_id} | what))

    def modern(self, session: int, ident: int, method: str = "tools/call", **params: Any) -> Any:
        """Have a modern client call; return what it gets at once, of all that happens."""
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        if method == "tools/call":
            params = {"name": "write"} | params
        message["params"] = params
        line = f">>m {session} elicitation,sampling " + json.dumps(message)
        return self.told(session, self.run(line))

    def told(self, session: int, lines: list[str]) -> Any:
        """Return the one message that a session gets among these, or ``None``."""
        found = [
            json.loads(line.split(" ", 2)[2]) for line in lines if line[:5] == f"<< {session} "
        ]
        return found[0] if found else None

    def parked(self, session: int = 1, ident: int = 1, **params: Any) -> str:
        """Have a call of a session parked, and return its handle."""
        self.modern(session, ident, **params)
        self.ask(0)
        result = self.told(session, self.run("!! +0.03"))["result"]
        assert result["resultType"] == "input_required"
        return str(result["requestState"])

    def sizes(self) -> dict[str, int]:
        return {name: size for name, size in self.mux.table_sizes().items() if size}


def test_handles_are_other_ones_in_each_life_of_the_daemon() -> None:
    first, second = Parking(), Parking()
    first.mux.context.settings = type(first.mux.context.settings)(version="1", secret=b"x" * 32)
    for world in (first, second):
        world.run("!! attach 1 echo")
    assert first.parked() != second.parked()


def test_a_handle_is_used_up_by_the_first_of_two_retries_at_once() -> None:
    world = Parking()
    world.run("!! attach 1 echo")
    state = world.parked()
    answers = {"q1": {"action": "accept"}}
    assert world.modern(1, 2, requestState=state, inputResponses=answers) is None
    assert world.modern(1, 3, requestState=state, inputResponses=answers)["error"]["code"] == -32602
    assert world.told(1, world.reply(3, result={}))["id"] == 2


def test_a_failure_that_comes_while_a_call_is_parked_is_kept_for_the_retry() -> None:
    world = Parking()
    world.run("!! attach 1 echo")
    state = world.parked()
    assert world.told(1, world.reply(3, error={"code": -1, "message": "no"})) is None
    assert world.modern(1, 2, requestState=state)["error"] == {"code": -1, "message": "no"}
    assert world.sizes() == {"sessions": 1, "users": 1}


def test_an_outcome_that_nobody_comes_for_is_forgotten() -> None:
    world = Parking("parked_timeout=50")
    world.run("!! attach 1 echo")
    world.parked()
    world.reply(3, result={})
    assert world.sizes()["parked"] == 1
    assert [line for line in world.run("!! +50") if line.startswith("<<")] == []
    assert world.sizes() == {"sessions": 1, "users": 1}


def test_no_limit_means_no_limit() -> None:
    world = Parking("parked_timeout=0")
    world.run("!! attach 1 echo")
    state = world.parked()
    world.run("!! +1000000")
    assert (
        world.modern(1, 2, requestState=state, inputResponses={"q1": {"action": "cancel"}}) is None
    )
    assert world.told(1, world.reply(3, result={}))["id"] == 2


def test_the_time_of_a_parked_call_begins_anew_with_each_result() -> None:
    world = Parking("parked_timeout=50")
    world.run("!! attach 1 echo")
    state = world.parked()
    world.run("!! +40")
    again = world.modern(1, 2, requestState=state)["result"]["requestState"]
    world.run("!! +40")
    assert world.modern(1, 3, requestState=again)["result"]["requestState"] not in (state, again)


def test_questions_of_two_clients_are_each_ones_own() -> None:
    """
    B081: with turns a parked call's question is never shown to another session.
    """
    world = Parking("interactive=exclusive")
    world.run("!! attach 1 echo", "!! attach 2 echo")
    state = world.parked()
    assert world.modern(2, 1) is None
    lines = world.run("!! +2")
    assert [line for line in lines if line.startswith("<< echo")] and world.told(2, lines) is None
    world.ask(1)
    assert world.told(2, world.run("!! +1")) is None  # it could be for either
    world.modern(1, 2, requestState=state, inputResponses={"q1": {"action": "accept"}})
    world.reply(3, result={})
    assert world.told(2, world.run("!! +0.03"))["result"]["resultType"] == "input_required"


def test_a_session_of_the_aggregate_retries_by_the_name_that_it_knows() -> None:
    world = Parking()
    world.run("!! attach 1")
    state = world.parked(name="echo__write", arguments={"n": 1})
    answers = {"q1": {"action": "accept"}}
    wrong = world.modern(1, 2, name="echo__echo", requestState=state, inputResponses=answers)
    assert wrong["error"]["code"] == -32602
    retry = {"name": "echo__write", "arguments": {"n": 1.0}, "requestState": state}
    assert world.modern(1, 3, **retry, inputResponses=answers) is None
    assert world.told(1, world.reply(3, result={}))["id"] == 3


def test_a_handle_of_one_server_means_nothing_to_another() -> None:
    world = Parking()
    world.run("!! server other", "!! start other", "!! attach 1")
    state = world.parked(name="echo__write")
    refused = world.modern(1, 2, name="other__write", requestState=state)
    assert refused["error"]["code"] == -32602
    world.reply(3, result={})  # nor does what was kept for it
    refused = world.modern(1, 3, name="other__write", requestState=state)
    assert refused["error"]["code"] == -32602
    assert world.sizes()["parked"] == 1


def test_a_request_without_answers_is_no_retry() -> None:
    world = Parking()
    world.run("!! attach 1 echo")
    assert world.modern(1, 1, requestState=None, inputResponses=None) is None
    assert world.sizes()["in_flight"] == 1


def test_an_old_handle_is_refused_before_the_server_has_ever_run() -> None:
    """
    It must not become a new call: the client believes that it goes on with an old one.
    """
    world = World()
    world.run("!! server echo era=probed", "!! attach 1 echo")
    request = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","requestState":'
    )
    (refusal,) = world.run(f'>>m 1 elicitation {request}"mcpd1.1.old"}}}}')
    assert "-32602" in refusal
    done = world.run(f'>>m 1 elicitation {request.replace(":1,", ":2,", 1)}"of a modern one"}}}}')
    assert not any(line.startswith("<< 1") for line in done)


def test_a_place_that_is_given_up_takes_its_parked_calls_along() -> None:
    world = Parking()
    world.run("!! attach 1 echo")
    state = world.parked()
    world.run("!! server echo launch=echo-2", "!! start echo", "!! +5")  # stop_grace
    assert world.modern(1, 2, requestState=state)["error"]["code"] == -32602
    world.run("!! +5")
    assert world.sizes() == {"sessions": 1, "users": 1}


def test_a_second_question_while_the_first_is_parked_waits_for_the_retry() -> None:
    world = Parking()
    world.run("!! attach 1 echo")
    state = world.parked()
    assert world.ask("0") == []
    assert world.run("!! +1") == []
    answers = {"q1": {"action": "accept"}, "q2": {"action": "accept"}}
    lines = world.modern(1, 2, requestState=state, inputResponses=answers)
    assert lines is None  # an answer to what was not asked yet is no answer
    again = world.told(1, world.run("!! +0.03"))["result"]
    assert list(again["inputRequests"]) == ["q2"]
    retry = {"requestState": again["requestState"], "inputResponses": answers}
    assert world.modern(1, 3, **retry) is None
    world.run("!! +1000")  # no time of the past counts
    assert world.told(1, world.reply(3, result={}))["id"] == 3


def test_a_legacy_call_of_the_same_session_is_asked_as_legacy_clients_are() -> None:
    world = Parking()
    world.run("!! join 1 echo elicitation")
    world.modern(1, 1)
    world.call(1, 2)
    assert world.told(1, world.ask(0))["method"] == "elicitation/create"
