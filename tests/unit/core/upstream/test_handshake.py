"""When a process that says nothing is given up for another."""

from __future__ import annotations

import pytest

from tests.unit.core.mux.world import World


def asked(*fields: str) -> World:
    """Return a world with a process that was asked which era it speaks, and has 30 s to start."""
    world = World()
    world.run(f"!! server echo era=probed {' '.join(fields)}", "!! up echo")
    return world


def is_given_up(done: list[str]) -> bool:
    return any(line.startswith("-- afresh") for line in done)


def test_a_process_that_has_read_nothing_by_half_of_its_time_is_given_up():
    world = asked()
    assert not is_given_up(world.run("!! +14.9"))
    assert is_given_up(world.run("!! +0.1"))


def test_a_package_runner_is_not_for_it_is_installing():
    """
    B022, B023: to kill it would undo what it has done, and the server has not been asked yet.
    """
    world = asked("is_fetched=true")
    assert not is_given_up(world.run("!! +29"))
    world.run("!! read echo")
    assert not is_given_up(world.run("!! +2.9"))
    assert is_given_up(world.run("!! +0.1"))


def test_half_of_its_time_begins_for_a_package_runners_server_when_it_has_read():
    world = World()
    world.run("!! server echo era=modern is_fetched=true", "!! up echo", "!! +29")
    world.run("!! read echo")
    assert not is_given_up(world.run("!! +14.9"))
    assert is_given_up(world.run("!! +0.1"))


@pytest.mark.parametrize("era", ["probed", "modern"])
def test_a_start_without_a_limit_has_no_half(era: str):
    world = World()
    world.run(f"!! server echo era={era} startup_timeout=0", "!! up echo")
    assert not is_given_up(world.run("!! +100000"))
