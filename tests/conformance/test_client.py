"""The official conformance suite on mcpd as the client, with each server of the suite by its URL."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conformance.suite import CLIENT_BASELINE, Run, Suite, differences, runs
from tests.support.waiting import scaled

SUITE_S = 600.0


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", runs(CLIENT_BASELINE), ids=lambda run: run.name)
def test_the_suite_finds_what_the_baseline_says(run: Run, suite: Suite, tmp_path: Path) -> None:
    command = f"{sys.executable} -m tests.conformance.client {tmp_path / 'lock'}"
    found = suite.of_client(command, run.arguments, tmp_path / "results", scaled(SUITE_S))
    print(f"{run.name}: {found.passed} succeed, {len(found.others)} do not")
    differing = list(differences(run, found))
    if differing:
        print(found.output)
    assert not differing, "\n".join(differing)
