"""The rounds of a modern server's questions; the rest is in the transcripts ``questions/rounds*``."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.core.mux.world import World


class InputRounds(World):
    """A modern server that asks, and a legacy session."""

    def __init__(self, *fields: str, join: str = "!! join 1 echo elicitation") -> None:
        super().__init__()
        self.run(" ".join(("!! server echo era=modern", *fields)), "!! start echo", join)

    def wants(self, wire_id: int, state: str | None = None, **asks: Any) -> list[str]:
        """Have the server ask for input."""
        result: dict[str, Any] = {"resultType": "input_required"}
        if state is not None:
            result["requestState"] = state
        if asks:
            result["inputRequests"] = {
                key: {"method": "elicitation/create", "params": {"message": text}}
                for key, text in asks.items()
            }
        message = {"jsonrpc": "2.0", "id": wire_id, "result": result}
        return self.run(">> echo " + json.dumps(message))

    def says(self, ident: int, result: Any = None, session: int = 1) -> list[str]:
        """Have a client answer."""
        message = {"jsonrpc": "2.0", "id": ident, "result": result or {"action": "accept"}}
        return self.run(f">> {session} " + json.dumps(message))

    def sizes(self) -> dict[str, int]:
        return {name: size for name, size in self.mux.table_sizes().items() if size}


IDLE = {"sessions": 1, "users": 1}


def sent(lines: list[str]) -> Any:
    """Return what the server is sent among these."""
    (line,) = [line for line in lines if line.startswith("<< echo ")]
    return json.loads(line.split(" ", 2)[2])


def test_after_ten_rounds_a_call_fails() -> None:
    world = InputRounds()
    wire_id = sent(world.call(1, 1))["id"]
    for number in range(1, 11):
        world.wants(wire_id, a="why?")
        wire_id = sent(world.says(number))["id"]
    (line,) = world.wants(wire_id, a="why?")
    assert '"code":-32603' in line and "asked 10 times" in line
    assert world.sizes() == IDLE and world.mux.in_flight_count() == 0


def test_a_state_alone_is_waited_for_longer_each_time_until_somebody_is_asked() -> None:
    world = InputRounds()
    wire_id = sent(world.call(1, 1))["id"]
    for wait in (0.05, 0.1, 0.2, 0.25, 0.25):
        world.wants(wire_id, "s")
        assert world.run(f"!! +{wait - 0.01}") == []
        wire_id = sent(world.run("!! +0.011"))["id"]
    world.wants(wire_id, "s", a="why?")
    wire_id = sent(world.says(1))["id"]
    world.wants(wire_id, "s")
    assert sent(world.run("!! +0.051"))["params"]["requestState"] == "s"


def test_a_client_that_can_be_asked_nothing_may_be_waited_for_and_cancel() -> None:
    world = InputRounds(join="!! join 1 echo")
    wire_id = sent(world.call(1, 1))["id"]
    world.wants(wire_id, "s")
    world.run('>> 1 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    assert world.run("!! +1") == []
    assert world.sizes() == IDLE


def test_no_round_is_begun_where_nobody_is_to_be_asked() -> None:
    world = InputRounds("interactive=off")
    wire_id = sent(world.call(1, 1))["id"]
    (line,) = world.wants(wire_id, a="why?")
    assert '"code":-32603' in line and "off" in line


def test_an_answer_that_is_no_object_is_none() -> None:
    world = InputRounds()
    wire_id = sent(world.call(1, 1))["id"]
    world.wants(wire_id, a="why?")
    retry = sent(world.says(1, "yes"))
    assert retry["params"]["inputResponses"] == {"a": {"action": "cancel"}}


def test_a_url_elicitation_gets_the_id_that_legacy_clients_need() -> None:
    world = InputRounds(join="!! attach 1 echo")
    capabilities = '"capabilities":{"elicitation":{"url":{}}}'
    world.run(
        '>> 1 {"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":'
        f'"2025-11-25",{capabilities},"clientInfo":{{"name":"c","version":"1"}}}}}}',
        '>> 1 {"jsonrpc":"2.0","method":"notifications/initialized"}',
    )
    wire_id = sent(world.call(1, 1))["id"]
    asks = {"u": {"method": "elicitation/create", "params": {"mode": "url", "url": "u:"}}}
    result = {"resultType": "input_required", "inputRequests": asks}
    (line,) = world.render(world.answer("echo", wire_id, result))
    assert json.loads(line.split(" ", 2)[2])["params"]["elicitationId"]


def test_two_clients_at_once_are_each_asked_their_own() -> None:
    """
    Answers come back in another order, and go where they belong.
    """
    world = InputRounds()
    world.run("!! join 2 echo elicitation")
    one, two = sent(world.call(1, 1))["id"], sent(world.call(2, 1))["id"]
    (first,) = world.wants(one, "s1", a="for one")
    (second,) = world.wants(two, "s2", a="for two")
    assert first.startswith("<< 1 ") and second.startswith("<< 2 ")
    assert world.says(2) == []  # session 1 was not asked this
    retry = sent(world.says(2, {"action": "accept", "content": {"who": 2}}, session=2))
    assert retry["params"]["requestState"] == "s2"
    assert retry["params"]["inputResponses"]["a"]["content"] == {"who": 2}


def test_a_call_whose_place_is_given_up_meanwhile_goes_to_the_next() -> None:
    world = InputRounds("stop_grace=5")
    wire_id = sent(world.call(1, 1))["id"]
    world.wants(wire_id, "s", a="why?")
    world.run("!! server echo era=modern launch=echo-2", "!! start echo")
    retry = sent(world.says(1))
    assert retry["params"]["requestState"] == "s"
    (line,) = world.wants(retry["id"], "t", a="again?")
    assert line.startswith("<< 1 ")
    world.run('>> 1 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    world.run("!! +10")
    assert world.sizes() == IDLE


def test_rounds_leave_room_for_others() -> None:
    """
    A call whose client thinks has no place at the server.
    """
    world = InputRounds("max_concurrency=1")
    wire_id = sent(world.call(1, 1))["id"]
    assert world.call(1, 2) == []
    lines = world.wants(wire_id, a="why?")
    other = sent(lines)["id"]
    assert world.says(1) == []
    again = world.render(world.answer("echo", other, {"resultType": "complete"}))
    assert sent(again)["params"]["inputResponses"] == {"a": {"action": "accept"}}


def test_a_modern_server_asks_in_its_results_alone() -> None:
    world = InputRounds()
    world.call(1, 1)
    (line,) = world.run(
        '>> echo {"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{}}'
    )
    assert line.startswith("<< echo ") and '"code":-32601' in line
