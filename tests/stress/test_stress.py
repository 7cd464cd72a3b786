"""A crowd of sessions on servers that crash: no wrong answer, no hang, and nothing kept."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.stress.crowd import CALM, CRASH_EVERY, FLAKY, Crowd
from tests.support.daemon import FAKE_SERVER, Box
from tests.support.waiting import wait_until

SESSIONS = 50
CALLS = int(os.environ.get("MCPD_TEST_STRESS_CALLS", "100000"))
SEED = int(os.environ.get("MCPD_TEST_STRESS_SEED", "1"))
GROWTH = 1.05
"""Of the daemon's memory over the second half of the calls, at most."""


def memory_kib(pid: int) -> int:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"no VmRSS for {pid}")


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def add_servers(box: Box) -> None:
    """Configure them; no journal, which would be most of the work."""
    for name in (FLAKY, CALM):
        box.servers[name] = {
            "command": sys.executable,
            "args": ["-I", "-S", str(FAKE_SERVER), "--name", name],
            "sharing": "shared",
            "restart": {"backoff": 0},
        }


async def stress(box: Box, calls: int) -> tuple[int, int]:
    """Make the calls in two halves; return the daemon's memory in KiB after each."""
    add_servers(box)
    box.up()
    assert box.daemon
    pid = box.daemon.pid
    for name in (FLAKY, CALM):  # with whatever the first call of each brings into being
        box.ctl("call", name, "echo", "text=hello").check_returncode()
    box.write_audit()
    before = descriptors(pid)
    crowd = Crowd(box.socket, sessions=SESSIONS, seed=SEED)
    await crowd.open()
    await crowd.call(calls // 2)
    half = memory_kib(pid)
    await crowd.call(calls - calls // 2)
    end = memory_kib(pid)
    await crowd.close()
    print(f"\n{calls:,} calls from {SESSIONS} sessions, {crowd.crashes} crashes of the server:")
    print(", ".join(f"{count:,} {outcome}" for outcome, count in crowd.outcomes.most_common()))
    print(f"memory: {half:,} KiB after half of them, {end:,} KiB after all ({end / half - 1:+.1%})")

    def is_empty() -> bool:
        told = json.loads(box.ctl("status", "--json").stdout)
        idle = all(s["in_flight"] == 0 and s["sessions"] == 0 for s in told["servers"])
        tables = told["daemon"]["tables"].items()
        is_forgotten = all(count <= (name in ("owed", "sessions")) for name, count in tables)
        return idle and told["daemon"]["sessions"] == 0 and is_forgotten

    assert not crowd.complaints, "\n".join(crowd.complaints[:20])
    assert crowd.outcomes["no answer"] == 0, crowd.outcomes
    assert sum(crowd.outcomes.values()) == calls
    assert crowd.crashes == calls // CRASH_EVERY
    wait_until(is_empty, 10, what=lambda: f"empty tables: {box.ctl('status', '--json').stdout}")
    wait_until(
        lambda: descriptors(pid) <= before,
        5,
        what=lambda: (
            f"at most {before} descriptors: {sorted(os.listdir(f'/proc/{pid}/fd'), key=int)}"
        ),
    )
    assert box.status(FLAKY)["restarts"] == crowd.crashes
    assert box.status(CALM)["restarts"] == 0
    return half, end


@pytest.mark.slow
async def test_two_thousand_calls_and_two_crashes_leave_nothing_behind(box: Box) -> None:
    """
    B147: of calls that succeed, crash, time out, are cancelled or abandoned, none is remembered.
    """
    await stress(box, 2 * CRASH_EVERY)


@pytest.mark.stress
@pytest.mark.timeout(3600)
async def test_a_hundred_thousand_calls_cost_no_memory(box: Box) -> None:
    """
    B147: the second half of the calls finds all the memory that it needs in what the first left.
    """
    half, end = await stress(box, CALLS)
    assert end <= half * GROWTH
