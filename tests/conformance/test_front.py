"""The official conformance suite on the HTTP front, with the fixture over stdio behind it."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.suite import BASELINE, Run, Suite, differences, runs
from tests.support.daemon import Box, Json
from tests.support.waiting import scaled, wait_until

FIXTURE = Path(__file__).with_name("fixture.py")
SUITE_S = 180.0


@pytest.fixture
def other() -> Iterator[Box]:
    """Another installation."""
    made = Box()
    try:
        yield made
    finally:
        made.close()


def is_healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/healthz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_address() -> str:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{holder.getsockname()[1]}"


def serve(box: Box, name: str, entry: Json, http: Mapping[str, Any]) -> str:
    """Start the daemon of ``box`` with one server; return the URL of it.

    The suite cannot send a token, so none is asked for.
    """
    address = free_address()
    box.http = {"listen": address, "auth": "none", **http}
    box.servers[name] = entry
    box.up()
    wait_until(lambda: is_healthy(address), 10, what=lambda: f"HTTP; the log:\n{box.tail()}")
    return f"http://{address}/mcp/{name}"


def fixture(run: Run) -> Json:
    """Return the entry of the server that the suite expects."""
    return {"command": sys.executable, "args": [str(FIXTURE)], "era": run.era}


def compare(run: Run, suite: Suite, url: str, results: Path) -> None:
    """Have the suite say of the server at ``url`` what the baseline has."""
    found = suite.of_server(url, run.arguments, results, scaled(SUITE_S))
    print(f"{run.name}: {found.passed} succeed, {len(found.others)} do not")
    differing = list(differences(run, found))
    if differing:
        print(found.output)
    assert not differing, "\n".join(differing)


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", runs(BASELINE), ids=lambda run: run.name)
def test_the_suite_finds_what_the_baseline_says(run: Run, suite: Suite, box: Box) -> None:
    compare(run, suite, serve(box, "fixture", fixture(run), run.http), box.root / "results")


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", runs(BASELINE), ids=lambda run: run.name)
def test_it_finds_the_same_of_a_remote_server(run: Run, suite: Suite, box: Box, other: Box) -> None:
    """
    A daemon of its own makes the server remote.
    """
    far = serve(other, "fixture", fixture(run), {})
    url = serve(box, "far", {"url": far, "era": run.era}, run.http)
    compare(run, suite, url, box.root / "results")
