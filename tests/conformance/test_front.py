"""The official conformance suite on the HTTP front, with the fixture over stdio behind it."""

from __future__ import annotations

import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conformance.suite import BASELINE, Run, Suite, differences, runs
from tests.support.daemon import Box
from tests.support.waiting import scaled, wait_until

FIXTURE = Path(__file__).with_name("fixture.py")
SUITE_S = 180.0


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


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", runs(BASELINE), ids=lambda run: run.name)
def test_the_suite_finds_what_the_baseline_says(run: Run, suite: Suite, box: Box) -> None:
    """
    The suite cannot send a token, so none is asked for.
    """
    address = free_address()
    box.http = {"listen": address, "auth": "none", **run.http}
    box.servers["fixture"] = {
        "command": sys.executable,
        "args": [str(FIXTURE)],
        "era": run.era,
    }
    box.up()
    wait_until(lambda: is_healthy(address), 10, what=lambda: f"HTTP; the log:\n{box.tail()}")
    url = f"http://{address}/mcp/fixture"
    found = suite.of_server(url, run.arguments, box.root / "results", scaled(SUITE_S))
    print(f"{run.name}: {found.passed} succeed, {len(found.others)} do not")
    differing = list(differences(run, found))
    if differing:
        print(found.output)
    assert not differing, "\n".join(differing)
