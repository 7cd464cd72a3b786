from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from mcpd.supervise.process import Child
from mcpd.supervise.proctable import procfs
from tests.integration.supervise.conftest import House
from tests.support.pipes import close_pipes
from tests.support.waiting import wait_until_async


def zombies() -> list[procfs.Stat]:
    return [each for each in procfs.scan() if each.ppid == os.getpid() and not each.lives]


async def exits_at_once(house: House) -> None:
    """Have a hundred children end at the same moment, each with a status of its own."""
    told: list[tuple[int, int | None]] = []
    children = [house.sh(f"read go; exit {number}") for number in range(100)]
    for child in children:
        child.on_exit(lambda child: told.append((child.pid, child.returncode)))
    for child in children:
        house.close_stdin(child)
    await wait_until_async(lambda: len(told) == 100, 10)
    assert sorted(told) == sorted((child.pid, number) for number, child in enumerate(children))


async def test_a_hundred_exits_in_one_moment_are_each_told_once(house: House):
    """B015: no status is stolen, none comes twice."""
    await exits_at_once(house)
    assert not zombies()


def test_the_same_on_uvloop():
    """B015, on the loop that the daemon runs on."""

    async def run() -> None:
        house = House()
        house.reaper.start()
        try:
            await exits_at_once(house)
            deaf = house.sh("trap '' TERM; sleep 60 & wait; sleep 60")
            report = await house.stop(deaf, grace=0.1)
            assert report.step == "kill"
        finally:
            await house.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def test_nobody_waits_for_just_any_child():
    """B015: a ``waitpid(-1)`` anywhere would take others' statuses."""
    wildcard = re.compile(r"waitpid\(\s*-1|os\.wait\(\)|os\.wait3|SIGCHLD,\s*signal\.SIG_IGN")
    sources = Path(__file__).parents[3].joinpath("mcpd").rglob("*.py")
    assert [path for path in sources if wildcard.search(path.read_text())] == []


async def test_what_others_start_in_this_process_is_theirs_to_wait_for(house: House):
    """B015: a worker started with plain Popen keeps its status, and hides nobody else's."""
    theirs = subprocess.Popen(["sh", "-c", "exit 7"])
    await wait_until_async(lambda: any(each.pid == theirs.pid for each in zombies()))
    ours = house.sh("exit 8")
    assert await ours.wait_exit(5)
    assert ours.returncode == 8
    assert theirs.wait() == 7


async def test_an_exit_is_told_as_code_or_signal(house: House):
    coded, killed = house.sh("exit 3"), house.start("sleep", "60")
    assert killed.describe_exit() == {}
    os.kill(killed.pid, signal.SIGKILL)
    assert await coded.wait_exit(5)
    assert await killed.wait_exit(5)
    assert coded.describe_exit() == {"exit_code": 3}
    assert killed.describe_exit() == {"signal": "SIGKILL"}


async def test_who_asks_after_the_exit_is_told_too(house: House):
    child = house.start("true")
    assert await child.wait_exit(5)
    told: list[Child] = []
    child.on_exit(told.append)
    await wait_until_async(lambda: told == [child])
    assert await child.wait_exit(0)


async def test_one_listener_that_fails_does_not_hide_the_exit_from_others(
    house: House, caplog: pytest.LogCaptureFixture
):
    child = house.start("true")
    child.on_exit(lambda _: 1 / 0)
    assert await child.wait_exit(5)
    other = house.start("true")
    assert await other.wait_exit(5)
    assert "ZeroDivisionError" in caplog.text


async def test_orphans_of_servers_leave_no_zombies(house: House):
    """B019: with a subreaper, those whose parents are gone are ours to wait for."""
    child = house.sh("for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 & ); done; echo done; read go")
    assert await house.line(child.stdout) == "done"
    await wait_until_async(
        lambda: (
            not [each for each in procfs.scan() if each.sid == child.pid and each.pid != child.pid]
        )
    )
    assert not zombies()


async def test_two_hundred_crashes_leave_no_zombies_and_no_descriptors(house: House):
    """B019."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        child = house.sh("(sleep 0 &); exit 1")
        assert await child.wait_exit(5)
        close_pipes(child)
        child.ended = True
        house.children.remove(child)
    await wait_until_async(lambda: not zombies())
    assert len(os.listdir("/proc/self/fd")) <= before + 1


async def test_an_exception_after_the_spawn_leaks_no_child(house: House):
    """B013: what was started is registered in the same breath, so the reaper has it."""
    with pytest.raises(RuntimeError):
        _raise_after(house.start("sleep", "60"))
    (child,) = house.reaper.trees
    assert (await house.stop(child, grace=0.1)).step == "term"
    assert not house.reaper.trees
    assert not zombies()


def _raise_after(child: Child) -> None:
    raise RuntimeError(f"before any handler was attached to {child}")


DAEMONISE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        fd = os.open("/dev/null", os.O_RDWR)
        for target in (0, 2):
            os.dup2(fd, target)
        if sys.argv[1] == "bare":
            os.execve("/bin/sh", ["sh", "-c", "echo $$; exec >/dev/null; exec sleep 60"], {})
        os.execve("/bin/sh", ["sh", "-c", "echo $$; exec >/dev/null; exec sleep 60"], os.environ)
    os._exit(0)
os.wait()
sys.stdin.read()
"""


async def orphaned(house: House, child: Child) -> procfs.ProcId:
    """Return the process that a child mentions, once its parents have gone and it is ours."""
    (process,) = await house.mentions(child)

    def adopted() -> bool:
        found = procfs.stat(process.pid)
        return found is not None and found.ppid == os.getpid()

    await wait_until_async(adopted)
    return process


async def test_an_orphan_without_any_mark_is_the_only_servers_that_it_can_be(house: House):
    """
    ``env -i setsid`` with a double fork leaves group, parent and tag behind; what is adopted by
    us can still be nobody's but the only server's.
    """
    child = house.python(DAEMONISE, "bare")
    orphan = await orphaned(house, child)
    assert orphan in {each.id for each in (await house.reaper.scan_trees())[child]}
    assert orphan in child.known
    assert orphan in child.escaped


async def test_an_orphan_that_may_be_of_two_servers_waits_until_one_is_left(house: House):
    """
    A guess would let the stop of one server end a process of another.
    """
    child = house.python(DAEMONISE, "bare")
    other = house.python("import sys; sys.stdin.read()")
    orphan = await orphaned(house, child)
    looked = await house.reaper.scan_trees()
    assert not any(each.id == orphan for members in looked.values() for each in members)
    assert house.orphans == []
    await house.stop(other)
    assert procfs.lives(orphan)
    report = await house.stop(child)
    assert report.step == "term"
    assert not procfs.lives(orphan)


async def test_an_orphan_that_holds_a_servers_pipe_is_that_servers(house: House):
    """
    ``env -i setsid sleep 987 &`` keeps stdout and stderr, as most do.
    """
    child = house.sh("(env -i setsid sh -c 'echo $$; exec sleep 60' &); read go")
    other = house.start("cat")
    orphan = await orphaned(house, child)
    looked = await house.reaper.scan_trees()
    assert orphan in {each.id for each in looked[child]}
    assert [each.id for each in looked[other]] == [other.id]


async def test_an_orphan_of_no_living_tree_is_reported_once(house: House):
    child = house.python(DAEMONISE, "bare")
    orphan = await orphaned(house, child)
    child.signal_group(signal.SIGKILL)
    assert await child.wait_exit(5)
    child.ended = True
    await house.reaper.scan_trees()
    await house.reaper.scan_trees()
    assert house.orphans == [orphan]


async def test_a_tagged_orphan_belongs_to_its_server(house: House):
    """
    It is written down as well: with its next ``exec`` it may be without a tag.
    """
    child, other = house.python(DAEMONISE, "tagged"), house.start("cat")
    orphan = await orphaned(house, child)
    looked = await house.reaper.scan_trees()
    assert orphan in {each.id for each in looked[child]}
    assert orphan not in {each.id for each in looked[other]}
    assert orphan in child.escaped


async def test_another_daemon_started_from_inside_a_server_is_left_alone(
    house: House, tmp_path: Path
):
    """
    A starter strips the tag and detaches; stopping the server must not stop the other daemon,
    which holds its lock.
    """
    daemon = tmp_path / "mcpd"
    daemon.write_text(
        f"#!{sys.executable} -IS\nimport fcntl, os, time\n"
        f"lock = open({str(tmp_path / 'mcpd.sock.lock')!r}, 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
        "print(os.getpid(), file=lock, flush=True)\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n"
    )
    daemon.chmod(0o755)
    child = house.sh("(env -u MCPD_INSTANCE setsid $1 </dev/null & ); read go", str(daemon))
    (process,) = await house.mentions(child)
    assert (await house.stop(child)).step == "eof"
    assert procfs.lives(process)
    assert house.orphans == []


async def test_looks_asked_for_at_the_same_time_are_shared(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    house.start("cat")
    scans: list[int] = []
    real = procfs.scan
    monkeypatch.setattr(procfs, "scan", lambda **since: (scans.append(1), real(**since))[1])
    await asyncio.gather(*(house.reaper.scan_trees() for _ in range(20)))
    assert len(scans) <= 2


async def test_a_reaper_at_rest_does_nothing(house: House):
    """
    Idle means asleep: no timer is left running.
    """
    child = house.start("true")
    assert await child.wait_exit(5)
    child.ended = True
    await wait_until_async(lambda: house.reaper._scan_timer is None)
    await house.reaper.scan_trees()
    loop = asyncio.get_running_loop()
    assert [handle for handle in loop._scheduled if not handle.cancelled()] == []
