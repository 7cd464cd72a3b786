"""What differs from the baseline is found, in both directions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.suite import (
    BASELINE,
    CLIENT_BASELINE,
    Check,
    Found,
    Run,
    Suite,
    differences,
    runs,
)

WARNS = Check("polling", "retry", "WARNING")
FAILS = Check("tasks", "cancel", "FAILURE")


def run(*expected: tuple[Check, int], passes: int = 2) -> Run:
    return Run("a run", ["--suite", "all"], passes, list(expected))


def found(*others: Check, passed: int = 2, exit_status: int = 0) -> Found:
    return Found(exit_status, passed, [(each, "because") for each in others], "")


def test_a_run_as_the_baseline_has_it_differs_in_nothing() -> None:
    assert not list(differences(run((WARNS, 1), (FAILS, 2)), found(FAILS, WARNS, FAILS)))


@pytest.mark.parametrize(
    ("expected", "came", "word"),
    [
        (run(), found(FAILS), "tasks: cancel: FAILURE: not in the baseline: because"),
        (run((FAILS, 1)), found(FAILS, FAILS), "not in the baseline"),
        (run((WARNS, 1)), found(), "polling: retry: WARNING: stale"),
        (run((FAILS, 2)), found(FAILS), "stale"),
        (run(passes=3), found(), "2 checks succeed, not 3"),
        (run(passes=1), found(), "2 checks succeed, not 1"),
        (run(), found(exit_status=1), "the suite ended with 1"),
    ],
)
def test_each_difference_is_named(expected: Run, came: Found, word: str) -> None:
    (line,) = differences(expected, came)
    assert word in line


def test_every_line_of_the_baseline_has_a_reason(tmp_path: Path) -> None:
    for baseline in (BASELINE, CLIENT_BASELINE):
        assert len({each.name for each in runs(baseline)}) == len(runs(baseline))
    entry = '[[run.expected]]\nscenario = "s"\ncheck = "c"\nstatus = "FAILURE"\nreason = ""\n'
    head = '[[run]]\nname = "n"\narguments = []\npasses = 1\n'
    (tmp_path / "baseline.toml").write_text(head + entry)
    with pytest.raises(AssertionError, match="no reason"):
        runs(tmp_path / "baseline.toml")


def test_checks_are_read_from_what_the_suite_writes(tmp_path: Path) -> None:
    """
    A scenario that was cut short has written nothing, and fails.
    """
    program = tmp_path / "node"
    said = [{"id": "a", "status": "SUCCESS"}, {"id": "b", "status": "WARNING"}]
    results = tmp_path / "results"
    whole = results / "server-server-sse-polling-2026-01-02T03-04-05-678Z"
    whole.mkdir(parents=True)
    note = {"id": "c", "status": "INFO"}
    (whole / "checks.json").write_text(json.dumps([*said, note]))
    (results / "server-ping-2026-01-02T03-04-05-678Z").mkdir()
    node = program / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\necho as it is\nexit 1\n")
    node.chmod(0o700)
    came = Suite(tmp_path).of_server("http://127.0.0.1:1/mcp", [], results, 10)
    assert (came.exit_status, came.passed, came.output) == (1, 1, "as it is\n")
    warned, cut = (check for check, _ in sorted(came.others, reverse=True))
    assert warned == Check("server-sse-polling", "b", "WARNING")
    assert cut == Check("ping", "ping", "FAILURE")


def test_scenarios_of_clients_are_in_folders(tmp_path: Path) -> None:
    node = tmp_path / "node" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text('#!/bin/sh\necho "$4"\n')
    node.chmod(0o700)
    results = tmp_path / "results"
    for name in ("auth/basic-2026-01-02T03-04-05-678Z", "initialize-2026-01-02T03-04-05-678Z"):
        (results / name).mkdir(parents=True)
    came = Suite(tmp_path).of_client("a client", [], results, 10)
    assert came.output == "a client\n"
    assert {str(check) for check, _ in came.others} == {
        "auth/basic: auth/basic: FAILURE",
        "initialize: initialize: FAILURE",
    }
    (results / "auth" / "other").mkdir()
    with pytest.raises(AssertionError, match="other has no result"):
        Suite(tmp_path).of_client("a client", [], results, 10)
