"""How far a start has come."""

from __future__ import annotations

from mcpd.upstreams.steps import Steps


def told(steps: Steps) -> list[tuple[str, bool, float]]:
    return [(one["step"], one["ok"], one["ms"]) for one in steps.report()]


def test_each_step_is_measured_from_the_one_before() -> None:
    steps = Steps(10.0)
    steps.done("start", 10.25)
    steps.done("handshake", 10.75)
    assert told(steps) == [("start", True, 250.0), ("handshake", True, 500.0)]
    steps.done("list", 11.0)
    assert told(steps)[-1] == ("list", True, 250.0)
    assert steps.is_whole


def test_a_failure_is_that_of_the_step_in_progress() -> None:
    steps = Steps(10.0)
    steps.failed(10.5)
    assert told(steps) == [("start", False, 500.0)]
    steps = Steps(10.0)
    steps.done("start", 10.25)
    steps.failed(10.5)
    assert told(steps) == [("start", True, 250.0), ("handshake", False, 250.0)]


def test_a_second_process_of_the_same_start_takes_up_no_step_again() -> None:
    """
    The question for the era may end a process; the next one is part of the same handshake.
    """
    steps = Steps(10.0)
    steps.done("start", 10.25)
    steps.done("start", 10.5)
    steps.done("handshake", 11.0)
    assert told(steps) == [("start", True, 250.0), ("handshake", True, 750.0)]
