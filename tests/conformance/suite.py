"""Runs the official conformance suite against a URL, and compares what it finds to a baseline."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BASELINE = Path(__file__).with_name("baseline.toml")

_FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z")
_PASSES = "SUCCESS"
_NO_CHECK = "INFO"
"""The status of what the suite notes beside its checks."""


class Check(NamedTuple):
    """A check that did not succeed, and is not asked to: an entry of the baseline."""

    scenario: str
    check: str
    status: str

    def __str__(self) -> str:
        return f"{self.scenario}: {self.check}: {self.status}"


class Found(NamedTuple):
    """What the suite said of one run."""

    exit_status: int
    passed: int
    others: list[tuple[Check, str]]
    """Checks that did not succeed, each with the suite's words."""

    output: str


class Run(NamedTuple):
    """A run of the suite as the baseline describes it."""

    name: str
    arguments: list[str]
    era: str
    """Of the fixture."""

    http: dict[str, Any]
    """Keys of ``[http]``."""

    passes: int
    expected: list[tuple[Check, int]]
    """Checks that do not succeed, and how often each is made."""


class Suite:
    """The suite as npm has installed it, with its Node."""

    def __init__(self, modules: Path) -> None:
        self._node = modules / "node" / "bin" / "node"
        self._program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

    def run(self, url: str, arguments: list[str], results: Path, timeout: float) -> Found:
        """Run it; ``results`` is where it writes what it finds, ``timeout`` in seconds."""
        done = subprocess.run(
            [self._node, self._program, "server", "--url", url, "-o", results, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        checks = list(_checks(results))
        others = [each for each in checks if each[0].status != _PASSES]
        return Found(done.returncode, len(checks) - len(others), others, done.stdout)


def _checks(results: Path) -> Iterator[tuple[Check, str]]:
    """Yield every check that was made, with what the suite says of it."""
    for folder in sorted(results.iterdir()):
        found = _FOLDER.fullmatch(folder.name)
        assert found, f"{folder.name} is not named as the suite names its results"
        scenario, written = found["scenario"], folder / "checks.json"
        if not written.exists():
            yield Check(scenario, scenario, "FAILURE"), "the scenario did not come to its end"
            continue
        for each in json.loads(written.read_text()):
            if each["status"] != _NO_CHECK:
                said = each.get("errorMessage", "")
                yield Check(scenario, each["id"], each["status"]), said


def runs(baseline: Path = BASELINE) -> list[Run]:
    """Read the baseline."""
    read = tomllib.loads(baseline.read_text())
    made = []
    for run in read["run"]:
        expected = []
        for each in run.get("expected", []):
            assert each["reason"], f"{each} has no reason"
            check = Check(each["scenario"], each["check"], each["status"])
            expected.append((check, each.get("times", 1)))
        http = run.get("http", {})
        made.append(Run(run["name"], run["arguments"], run["era"], http, run["passes"], expected))
    return made


def differences(run: Run, found: Found) -> Iterator[str]:
    """Yield a line for everything that is not as the baseline has it."""
    if found.exit_status != 0:
        yield f"the suite ended with {found.exit_status}: a required check failed"
    if found.passed != run.passes:
        yield f"{found.passed} checks succeed, not {run.passes}"
    expected = Counter(dict(run.expected))
    happened = Counter(check for check, _ in found.others)
    said = dict(found.others)
    for check in (happened - expected).elements():
        yield f"{check}: not in the baseline: {said[check]}"
    for check in (expected - happened).elements():
        yield f"{check}: stale, it is no longer so: remove the line"
