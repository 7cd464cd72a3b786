from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from mcpd.supervise import ladder
from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId
from tests.integration.supervise.conftest import House
from tests.support.waiting import scaled, wait_until_async

POLITE = """
import os, signal, sys, time
def note(signum, _):
    with open(sys.argv[1], "a") as file:
        file.write(f"{signum}\\n")
for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(signum, note)
print("up", flush=True)
sys.stdin.read()
time.sleep(0.02)
"""

DEAF = """
import os, signal, sys, time
if "term" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True:
    if "busy" not in sys.argv:
        time.sleep(60)
"""


def alive(processes: list[ProcId]) -> list[ProcId]:
    return [each for each in processes if procfs.lives(each)]


async def test_a_polite_server_sees_no_signal_and_is_not_waited_for(house: House, tmp_path: Path):
    """B006."""
    signals = tmp_path / "signals"
    child = house.python(POLITE, str(signals))
    assert await house.line(child.stdout) == "up"
    before = time.monotonic()
    report = await house.stop(child, grace=5)
    assert time.monotonic() - before < scaled(0.5)
    assert report == ladder.StopReport(step="eof")
    assert child.returncode == 0
    assert not signals.exists()


async def test_a_server_deaf_to_end_of_input_gets_sigterm(house: House):
    """B005."""
    child = house.python(DEAF)
    await house.mentions(child)
    assert await house.stop(child, grace=0.1) == ladder.StopReport(step="term")
    assert child.describe_exit() == {"signal": "SIGTERM"}


@pytest.mark.parametrize("how", ["idle", "busy"])
async def test_a_server_deaf_to_sigterm_is_killed(house: House, how: str):
    """B005, B007: the last rung cannot be refused, not even by a loop that burns a core."""
    child = house.python(DEAF, "term", how)
    await house.mentions(child)
    assert await house.stop(child, grace=0.1) == ladder.StopReport(step="kill", killed=1)
    assert child.describe_exit() == {"signal": "SIGKILL"}


TREES = {
    "launcher": "sh -c \"sh -c 'echo \\$\\$; exec sleep 60' & wait\" & wait",
    "pipe": "bash -c '(echo $BASHPID; exec sleep 60) | cat'",
    "substitution": "bash -c 'exec 2> >(cat >/dev/null); (echo $BASHPID; exec sleep 60) | cat'",
    "job control": "bash -mc '(echo $BASHPID; exec sleep 60) & wait'",
    "setsid": "setsid -w sh -c 'echo $$; exec sleep 60'",
    "env -i setsid": "env -i setsid -w sh -c 'echo $$; exec sleep 60'",
    "double fork": "(setsid sh -c 'echo $$; exec sleep 60' &); exec sleep 60",
    "double fork, env -i": "(env -i setsid sh -c 'echo $$; exec sleep 60' &); exec sleep 60",
}


@pytest.mark.parametrize("tree", sorted(TREES))
@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_nothing_of_a_tree_is_left(house: House, tree: str, end: str):
    """B001, B018: launchers, pipelines, process substitution, new sessions, double forks."""
    child = house.sh(TREES[tree])
    leaves = await house.mentions(child)
    if end == "stop":
        await house.stop(child, grace=0.2)
    else:
        os.kill(child.pid, signal.SIGKILL)
        assert await child.wait_exit(5)
        report = await ladder.reap_rest(child, grace=0.2)
        assert report.step == "term"
    assert not alive(leaves)
    assert child.ended
    assert not [each for each in procfs.scan() if each.sid == child.pid and each.lives]


async def test_a_leaf_that_outlives_its_launcher_is_killed_within_the_grace(house: House):
    """B002: the launcher ends at SIGTERM, the leaf ignores it; the group is what counts."""
    child = house.sh("sh -c 'trap \"\" TERM; echo $$; while :; do sleep 60; done' & wait")
    leaves = await house.mentions(child)
    before = time.monotonic()
    report = await house.stop(child, grace=0.3)
    assert time.monotonic() - before < scaled(1.6)
    assert child.describe_exit() == {"signal": "SIGTERM"}
    assert report.step == "kill"
    assert not alive(leaves)


async def test_a_leaf_that_ignores_the_end_of_input_gets_sigterm_soon(house: House):
    """B005: the leader ends at end of input, its group does not."""
    child = house.sh("sh -c 'echo $$; exec sleep 60' </dev/null & read go")
    leaves = await house.mentions(child)
    before = time.monotonic()
    assert await house.stop(child, grace=1) == ladder.StopReport(step="term")
    assert time.monotonic() - before < scaled(1)
    assert not alive(leaves)


async def test_stragglers_that_end_by_themselves_see_no_signal(house: House, tmp_path: Path):
    """
    The server behind a launcher may need a moment more than the launcher.
    """
    signals = tmp_path / "signals"
    child = house.start("sh", "-c", '"$@" 0<&3 3<&- & exec 3<&-; read go', "sh", "true")
    child = house.sh(
        'exec 3<&0; "$1" -I -S -c "$2" "$3" <&3 & exec 3<&-; read go',
        __import__("sys").executable,
        POLITE.replace("0.02", "0.15"),
        str(signals),
    )
    assert await house.line(child.stdout) == "up"
    assert await house.stop(child, grace=5) == ladder.StopReport(step="eof")
    assert not signals.exists()


RESPAWN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:   # a chain: each starts the next and ends
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.05)
"""


async def test_a_chain_that_starts_itself_anew_is_caught(house: House):
    """
    Every link has a new pid, a new session and a dead parent; the tag goes on.
    """
    child = house.python(RESPAWN)
    assert await house.line(child.stdout) == "up"
    report = await house.stop(child, grace=0.1)
    assert report.step == "kill"
    assert report.left == 0
    assert not [each for each in procfs.scan() if procfs.tag_of(each.pid) == child.tag]


async def test_scope_group_leaves_other_sessions_alone(house: House):
    child = house.sh(
        "setsid sh -c 'echo $$; exec sleep 60' & sh -c 'echo $$; exec sleep 60' & wait",
        scope="group",
    )
    two = await house.mentions(child, 2)
    apart = [each for each in two if os.getsid(each.pid) == each.pid]
    inside = [each for each in two if each not in apart]
    assert len(apart) == 1
    await house.stop(child, grace=0.2)
    assert alive(two) == apart
    assert not alive(inside)
    await house.reaper.scan_trees()
    assert house.orphans == []


async def test_what_was_seen_once_is_found_again(house: House):
    """
    A look while the parents live is proof; afterwards there may be none.
    """
    child = house.sh("env -i setsid sh -c 'echo $$; exec >/dev/null 2>&1; exec sleep 60' & wait")
    other = house.start("cat")
    leaves = await house.mentions(child)
    await wait_until_async(
        lambda: not procfs.pipes(leaves[0].pid) & child.pipe_inodes - {0} or True
    )
    await house.reaper.scan_trees()
    os.kill(child.pid, signal.SIGKILL)
    assert await child.wait_exit(5)
    await ladder.reap_rest(child, grace=0.5)
    assert not alive(leaves)
    assert procfs.lives(other.id)


async def test_stopping_again_after_a_cancelled_stop_goes_on(house: House):
    child = house.python(DEAF, "term")
    await house.mentions(child)
    first = asyncio.create_task(house.stop(child, grace=30))
    await wait_until_async(lambda: child.stdin < 0)
    first.cancel()
    assert (await house.stop(child, grace=0.1)).step == "kill"


async def test_many_servers_are_stopped_at_the_same_time(house: House):
    children = [house.python(DEAF, "term") for _ in range(8)]
    for child in children:
        await house.mentions(child)
    before = time.monotonic()
    reports = await asyncio.gather(*(house.stop(child, grace=0.2) for child in children))
    assert time.monotonic() - before < scaled(2)
    assert {report.step for report in reports} == {"kill"}


async def test_a_stop_without_any_grace_still_ends_everything(house: House):
    child = house.sh("trap '' TERM; echo $$; while :; do sleep 60; done")
    leaves = await house.mentions(child)
    assert (await house.stop(child, grace=0)).step == "kill"
    assert not alive(leaves)


async def test_a_crash_that_left_nothing_is_over_at_once(house: House):
    child = house.sh("exit 1")
    assert await child.wait_exit(5)
    assert await ladder.reap_rest(child, grace=5) == ladder.StopReport(step="none")


async def test_a_stopped_process_is_killed_too(house: House):
    """
    ``kill -STOP`` holds back SIGTERM, not SIGKILL.
    """
    child = house.start("sleep", "60")
    os.kill(child.pid, signal.SIGSTOP)
    assert (await house.stop(child, grace=0.1)).step == "kill"
