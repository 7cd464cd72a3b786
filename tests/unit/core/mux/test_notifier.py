"""Who hears what a server says unasked."""

from __future__ import annotations

import itertools

from tests.unit.core.mux.world import World

NOTICE = "notifications/tools/list_changed"


def test_a_session_hears_of_one_kind_four_times_a_second_at_most():
    """
    B082: filters and reloads come in bursts as well as servers do.
    """
    world, times = World(), list[float]()
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    for number in range(30):
        deny = "write" if number % 2 else "none"
        lines = world.run(f"!! server echo deny={deny}", "!! +0.05")
        times += [world.now] * sum(NOTICE in line for line in lines)
    times += [world.now] * sum(NOTICE in line for line in world.run("!! +1"))
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert 5 <= len(times) <= 8
    assert all(gap > 0.19 for gap in gaps)


def test_the_last_change_is_told_within_a_second():
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    world.run("!! server echo deny=write", "!! server echo deny=echo")
    assert sum(NOTICE in line for line in world.run("!! +1")) == 1
    assert world.run("!! +10") == []


def test_who_does_not_use_a_process_hears_nothing_of_it():
    world = World()
    world.run("!! server echo", "!! server other", "!! start echo", "!! start other")
    world.run("!! join 1 echo", "!! join 2 other", "!! open 3")
    said = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
    assert [line[:5] for line in world.run(f">> echo {said}")] == ["<< 1 "]


def test_an_aggregate_session_hears_the_servers_that_it_uses():
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1")
    said = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
    assert world.run(f">> echo {said}") == []
    world.call(1, 1, "echo__echo")
    world.answer("echo", 3)
    assert [line[:5] for line in world.run(f">> echo {said}")] == ["<< 1 "]


def test_processes_of_others_change_no_list_of_a_session():
    """
    A server with a process for each session may list different things in each.
    """
    world = World()
    world.run("!! server own sharing=session", "!! join 1 own", "!! start own-1@session:1")
    world.run("!! join 2 own", "!! up own-1@session:2")
    changed = f'{{"jsonrpc":"2.0","method":"{NOTICE}"}}'
    lines = world.run(f">> own-1@session:1 {changed}", "!! +0.02")
    assert "tools/list" in lines[0]
    lines = world.run('>> own-1@session:1 {"jsonrpc":"2.0","id":3,"result":{"tools":[]}}')
    assert [line[:5] for line in lines] == ["<< 1 "]
