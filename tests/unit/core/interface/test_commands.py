from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.core.interface import commands as cmd
from tests.unit.core.mux.world import World


def message(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def written(commands: list[cmd.Command]) -> list[tuple[int, bytes, bool]]:
    """Return what was written to clients: session, key of the request, whether it is the answer."""
    return [(c.session, c.request, c.is_response) for c in commands if isinstance(c, cmd.ToSession)]


@pytest.fixture
def world() -> World:
    """Two sessions of one server; the first has a call with a progress token in flight."""
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo elicitation", "!! join 2 echo")
    world.call(1, 7, _meta={"progressToken": "p"})
    return world


def test_a_response_belongs_to_its_request():
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    world.call(1, 7)
    assert written(world.answer("echo", 3)) == [(1, b"7", True)]
    assert written(world.say("1", b'{"jsonrpc":"2.0","id":"a","method":"ping"}')) == [
        (1, b'"a"', True)
    ]


def test_progress_logs_and_questions_belong_to_the_only_request_in_flight(world: World):
    log = message("notifications/message", level="error", data="d")
    assert written(world.say("echo", log)) == [(1, b"7", False)]
    question = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"}
    asked = json.dumps({**question, "params": {"message": "m", "requestedSchema": {}}}).encode()
    assert written(world.say("echo", asked)) == [(1, b"7", False)]


def test_progress_belongs_to_the_request_whose_token_it_has(world: World):
    world.call(1, 8, _meta={"progressToken": "q"})
    for token, key in ((3, b"7"), (4, b"8")):
        said = message("notifications/progress", progressToken=token, progress=1)
        assert written(world.say("echo", said)) == [(1, key, False)]


def test_a_log_message_that_may_be_of_two_requests_belongs_to_the_newest(world: World):
    world.call(1, 8)
    log = message("notifications/message", level="error", data="d")
    assert written(world.say("echo", log)) == [(1, b"8", False)]


def test_what_is_logged_while_no_call_runs_belongs_to_no_request():
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo", "!! join 2 echo")
    log = message("notifications/message", level="error", data="d")
    assert written(world.say("echo", log)) == [(1, b"", False), (2, b"", False)]


def test_a_question_of_a_modern_server_and_its_withdrawal_belong_to_the_call():
    world = World()
    world.run("!! server echo era=modern", "!! start echo", "!! join 1 echo elicitation")
    world.call(1, 7)
    question = {"method": "elicitation/create", "params": {"mode": "form", "message": "m"}}
    wanted = {"resultType": "input_required", "inputRequests": {"a": question}}
    assert written(world.answer("echo", 4, wanted)) == [(1, b"7", False)]
    cancelled = message("notifications/cancelled", requestId=7)
    assert written(world.say("1", cancelled)) == [(1, b"7", False)]


def test_what_a_subscription_brings_belongs_to_its_request():
    world = World()
    world.run("!! server echo", "!! start echo tools resources", "!! attach 1 echo")
    world.run(
        '>>m 1 - {"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":'
        '{"notifications":{"resourceSubscriptions":["file:///x"]}}}'
    )
    assert written(world.answer("echo", 3)) == [(1, b'"l"', False)], "acknowledged"
    updated = message("notifications/resources/updated", uri="file:///x")
    assert written(world.say("echo", updated)) == [(1, b'"l"', False)]
