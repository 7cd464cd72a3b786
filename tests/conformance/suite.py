"""Runs the official conformance suite, and compares what it finds to a baseline."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

BASELINE = Path(__file__).with_name("baseline.toml")
CLIENT_BASELINE = Path(__file__).with_name("client_baseline.toml")

_ROOT = Path(__file__).parents[2]
_FOLDER = re.compile(r"(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z")
_OF_SERVER = "server-"
"""What the suite writes before the names of scenarios for servers."""

_CLIENT_MS = 600_000
"""Time for one client, which waits for its turn first."""

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
    passes: int
    expected: list[tuple[Check, int]]
    """Checks that do not succeed, and how often each is made."""

    era: str = ""
    """Of the fixture, where there is one."""

    http: Mapping[str, Any] = MappingProxyType({})
    """Keys of ``[http]``."""


class Suite:
    """The suite as npm has installed it, with its Node."""

    def __init__(self, modules: Path) -> None:
        self._node = modules / "node" / "bin" / "node"
        self._program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

    def of_server(self, url: str, arguments: list[str], results: Path, timeout: float) -> Found:
        """Run it on a server; ``results`` is where it writes what it finds, ``timeout`` in seconds."""
        return self._run(["server", "--url", url, *arguments], results, timeout)

    def of_client(self, command: str, arguments: list[str], results: Path, timeout: float) -> Found:
        """Run it on a client: a command, split at blanks, to which the suite adds its URL."""
        whole = ["client", "--command", command, "--timeout", str(_CLIENT_MS), *arguments]
        return self._run(whole, results, timeout)

    def _run(self, arguments: list[str], results: Path, timeout: float) -> Found:
        done = subprocess.run(
            [self._node, self._program, *arguments, "-o", results],
            cwd=_ROOT,
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
    folders = [each for each in results.rglob("*") if each.is_dir()]
    for folder in sorted(folders):
        found = _FOLDER.fullmatch(str(folder.relative_to(results)))
        if found is None:  # one of those in which the suite groups scenarios
            assert any(folder in each.parents for each in folders), f"{folder.name} has no result"
            continue
        scenario, written = found["scenario"].removeprefix(_OF_SERVER), folder / "checks.json"
        if not written.exists():
            yield Check(scenario, scenario, "FAILURE"), "the scenario did not come to its end"
            continue
        for each in json.loads(written.read_text()):
            if each["status"] != _NO_CHECK:
                said = each.get("errorMessage", "")
                yield Check(scenario, each["id"], each["status"]), said


def runs(baseline: Path) -> list[Run]:
    """Read a baseline."""
    read = tomllib.loads(baseline.read_text())
    made = []
    for run in read["run"]:
        expected = []
        for each in run.pop("expected", []):
            assert each["reason"], f"{each} has no reason"
            for check in each.get("checks", [each.get("check")]):
                named = Check(each["scenario"], check, each["status"])
                expected.append((named, each.get("times", 1)))
        made.append(Run(**run, expected=expected))
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
