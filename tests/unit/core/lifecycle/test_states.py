"""The table of states."""

from __future__ import annotations

import pytest

from mcpd.core.lifecycle.states import TRANSITIONS, State, Trigger, step
from mcpd.errors import IllegalTransition


def test_every_state_has_its_line():
    assert set(TRANSITIONS) == set(State)


def test_every_state_can_be_reached_and_left():
    reached, todo = {State.STOPPED}, [State.STOPPED]
    while todo:
        for state in TRANSITIONS[todo.pop()].values():
            if state not in reached:
                reached.add(state)
                todo.append(state)
    assert reached == set(State)
    assert all(set(line.values()) - {state} for state, line in TRANSITIONS.items())


def test_every_trigger_means_something_somewhere():
    used = {trigger for line in TRANSITIONS.values() for trigger in line}
    assert used == set(Trigger)


def test_whatever_runs_can_be_stopped():
    for state in State:
        if state is not State.STOPPED:
            assert step(state, Trigger.STOP) is State.STOPPING


def test_only_a_process_that_was_starting_becomes_ready():
    for state in State:
        if state is not State.STARTING:
            with pytest.raises(IllegalTransition):
                step(state, Trigger.READY)


def test_a_wrong_trigger_is_named():
    with pytest.raises(IllegalTransition, match="gone while ready"):
        step(State.READY, Trigger.GONE)


def test_states_are_called_as_status_calls_them():
    names = {"stopped", "starting", "ready", "backoff", "failed", "login", "stopping"}
    assert {state.value for state in State} == names
