"""One server's protocol side, as far as no conversation shows it."""

from __future__ import annotations

import pytest

from tests.unit.core.mux.world import World


@pytest.mark.parametrize("ident", ['"3"', "3", "  3"])
def test_an_answer_may_have_its_number_as_a_string(ident: str):
    """
    Some servers make strings of all ids.
    """
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    world.call(1, 1)
    (answer,) = world.run(f'>> echo {{"jsonrpc":"2.0","id":{ident},"result":{{}}}}')
    assert answer.startswith('<< 1 {"jsonrpc":"2.0","id":1,')


@pytest.mark.parametrize("ident", ["3.5", "-3", '"03x"', "[3]", "null", "true", "9" * 5000])
def test_nothing_else_is_taken_for_one_of_ours(ident: str):
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    world.call(1, 1)
    (noise,) = world.run(f'>> echo {{"jsonrpc":"2.0","id":{ident},"result":{{}}}}')
    assert noise.startswith("-- server-noise")
    assert world.mux.in_flight_count() == 1


def test_a_server_is_started_with_no_capability_and_needs_none():
    world = World()
    world.run("!! server bare", "!! attach 1 bare", "!! up bare")
    done = world.run(
        '>> bare {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}'
    )
    assert done[-1] == "-- ready bare"


def test_what_is_said_before_the_handshake_is_done_hurts_nobody():
    world = World()
    world.run("!! server echo", "!! join 1 echo", "!! up echo")
    for line in (
        '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":5}}',
    ):
        assert world.run(f">> echo {line}") == []
    assert world.run("!! +5") == []
    world.run("!! start echo")
    assert world.call(1, 1)[0].startswith("<< echo")
