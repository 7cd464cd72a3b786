from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpd.supervise import guard, procfs
from mcpd.supervise.ledger import Ledger
from mcpd.supervise.procfs import ProcId
from mcpd.supervise.reaper import Reaper
from mcpd.supervise.sweep import SweepReport, sweep_dead
from tests.support.waiting import scaled, wait_until, wait_until_async

ROOT = Path(__file__).parents[3]
DAEMONLET = Path(__file__).with_name("daemonlet.py")


class Daemonlet:
    """A small daemon in a process of its own, with everything it may leave behind."""

    def __init__(self, state: Path, *commands: str, scope: str = "tree") -> None:
        argv = [sys.executable, str(DAEMONLET), str(state), scope, *commands]
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "MCPD_TEST_DAEMONLET": str(state)},
        )
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.id: str = told["id"]
        self.guardian = identity(told["guardian"])
        self.children = [identity(pid) for pid in told["children"]]
        self.ledger = state / "ledger" / f"{self.id}.json"

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> float:
        """End it as the kernel does when memory runs out; return when."""
        self.process.kill()
        self.process.wait()
        return time.monotonic()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def identity(pid: int) -> ProcId:
    found = procfs.identify(pid)
    assert found is not None
    return found


class Site:
    """State directory, pid files and daemons of one test."""

    def __init__(self, path: Path) -> None:
        self.state = path / "state"
        self.pids = path / "pids"
        self.pids.mkdir()
        self.daemons: list[Daemonlet] = []

    def daemon(self, *commands: str, scope: str = "tree") -> Daemonlet:
        """Start one; in commands ``NOTE`` stands for a way to note the pid of a shell."""
        note = f"touch {self.pids}/$$"
        made = Daemonlet(
            self.state, *(each.replace("NOTE", note) for each in commands), scope=scope
        )
        self.daemons.append(made)
        return made

    def noted(self, count: int) -> list[ProcId]:
        """Return the processes that noted themselves, as soon as there are so many."""
        wait_until(lambda: len(os.listdir(self.pids)) >= count)
        return [identity(int(name)) for name in os.listdir(self.pids)]

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.close()
        needle = f"MCPD_TEST_DAEMONLET={self.state}".encode()
        for each in procfs.scan():
            with contextlib.suppress(OSError):
                if needle in Path(f"/proc/{each.pid}/environ").read_bytes().split(b"\0"):
                    procfs.send(each.id, signal.SIGKILL)
        for name in os.listdir(self.pids):
            process = procfs.identify(int(name))
            if process is not None:
                procfs.send(process, signal.SIGKILL)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    try:
        yield made
    finally:
        made.close()


def alive(processes: list[ProcId]) -> list[ProcId]:
    return [each for each in processes if procfs.lives(each)]


DEAF = "trap '' TERM HUP; NOTE; while :; do sleep 1; done"
TREE = "sh -c 'NOTE; sleep 60; exit' & NOTE; wait"
SETSID = "setsid -w sh -c 'NOTE; exec sleep 60' & NOTE; wait"
BARE = "(env -i setsid sh -c 'NOTE; exec sleep 60 </dev/null >/dev/null 2>&1' &); NOTE; read go"


def test_nothing_outlives_a_killed_daemon_by_more_than_two_seconds(site: Site):
    """B004: deaf ones and trees, groups and sessions, ended by the guardian, which ends too."""
    daemon = site.daemon(DEAF, DEAF, TREE, TREE, SETSID, "NOTE; exec cat")
    processes = site.noted(9)
    assert len(alive(processes)) == 9
    killed_at = daemon.kill()
    wait_until(lambda: not alive(processes), 5)
    assert time.monotonic() - killed_at < scaled(2.5)
    wait_until(lambda: not procfs.lives(daemon.guardian))
    assert os.listdir(site.state / "ledger") == []


def test_what_left_every_mark_behind_is_found_because_it_was_seen(site: Site):
    """
    ``env -i setsid`` with a double fork: adopted by the daemon, reported to the ledger.
    """
    daemon = site.daemon(BARE)
    bare = next(each for each in site.noted(2) if each not in daemon.children)

    def seen() -> bool:
        daemon.ask("look")
        return list(bare) in json.loads(daemon.ledger.read_text())["processes"][0]["seen"]

    wait_until(seen)
    daemon.kill()
    wait_until(lambda: not alive([*daemon.children, bare]), 5)


def test_a_narrow_scope_holds_for_the_guardian_too(site: Site):
    daemon = site.daemon("setsid sh -c 'NOTE; exec sleep 60' & NOTE; wait", scope="group")
    apart = [each for each in site.noted(2) if each not in daemon.children]
    daemon.kill()
    wait_until(lambda: not procfs.lives(daemon.guardian), 5)
    assert not alive(daemon.children)
    assert alive(apart) == apart


def test_the_guardian_has_nothing_of_the_daemons_but_its_pipe(site: Site):
    """
    A pipe of a server or of a client that it held open would never end.
    """
    daemon = site.daemon("NOTE; exec cat")
    folder = Path(f"/proc/{daemon.guardian.pid}")
    wait_until(lambda: any((site.state / "ledger").glob("*.guard")))
    targets = {int(fd): os.readlink(folder / "fd" / fd) for fd in os.listdir(folder / "fd")}
    assert targets.pop(0).startswith("pipe:[")
    assert targets.pop(1) == targets.pop(2) == "/dev/null"
    assert list(targets.values()) == [str(daemon.ledger.with_suffix(".guard"))]
    assert os.readlink(folder / "cwd") == "/"
    assert b"MCPD" not in (folder / "environ").read_bytes()
    assert os.getsid(daemon.guardian.pid) == daemon.guardian.pid
    assert "guardian.py" in (folder / "cmdline").read_text()


def switches(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)


def test_the_guardian_sleeps_until_it_is_needed(site: Site):
    daemon = site.daemon("NOTE; exec cat")
    site.noted(1)
    wait_until(lambda: any((site.state / "ledger").glob("*.guard")))
    wait_until(lambda: "read" in Path(f"/proc/{daemon.guardian.pid}/wchan").read_text())
    before = switches(daemon.guardian.pid)
    time.sleep(0.5)
    assert switches(daemon.guardian.pid) == before


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_guardian_outlives_signals_that_go_to_everybody(site: Site, signum: int):
    daemon = site.daemon(DEAF)
    processes = site.noted(1)
    wait_until(lambda: any((site.state / "ledger").glob("*.guard")))
    os.kill(daemon.guardian.pid, signum)
    daemon.kill()
    wait_until(lambda: not alive(processes), 5)


def test_an_orderly_end_leaves_no_trace(site: Site):
    daemon = site.daemon(TREE, "exec cat")
    processes = site.noted(2)
    _, stderr = daemon.process.communicate("stop\n", timeout=scaled(10))
    assert daemon.process.returncode == 0
    assert stderr == ""
    assert not alive([*processes, *daemon.children, daemon.guardian])
    assert os.listdir(site.state / "ledger") == []


def test_a_guardian_that_is_killed_is_replaced_and_it_is_said(site: Site):
    daemon = site.daemon(DEAF)
    processes = site.noted(1)
    os.kill(daemon.guardian.pid, signal.SIGKILL)

    def other() -> int:
        told = daemon.ask("guardian")
        return 0 if told in ("None", str(daemon.guardian.pid)) else int(told)

    pid = wait_until(other)
    daemon.kill()
    wait_until(lambda: not alive(processes), 5)
    wait_until(lambda: procfs.identify(pid) is None)
    assert daemon.process.stderr is not None
    assert f"pid {daemon.guardian.pid}" in daemon.process.stderr.read()


def kill_both(daemon: Daemonlet) -> None:
    """Kill daemon and guardian at once, before either can notice the other's end."""
    os.kill(daemon.guardian.pid, signal.SIGSTOP)
    daemon.kill()
    os.kill(daemon.guardian.pid, signal.SIGKILL)
    wait_until(lambda: not procfs.lives(daemon.guardian))


async def test_the_next_daemon_reaps_what_is_left_when_both_died(site: Site):
    """B004."""
    daemon = site.daemon(DEAF, TREE, SETSID)
    processes = site.noted(5)
    kill_both(daemon)
    assert len(alive(processes)) == 5
    report = await sweep_dead(str(site.state))
    assert not alive(processes)
    assert report.dead == 1
    assert report.reaped >= 5
    assert os.listdir(site.state / "ledger") == []
    assert await sweep_dead(str(site.state)) == SweepReport()


async def test_a_living_daemon_is_left_alone(site: Site):
    daemon = site.daemon("NOTE; exec cat")
    site.noted(1)
    assert await sweep_dead(str(site.state)) == SweepReport(left=1)
    assert alive(daemon.children)


async def test_a_daemon_whose_lock_was_removed_is_known_by_its_pid(site: Site):
    daemon = site.daemon("NOTE; exec cat")
    daemon.ledger.with_suffix(".lock").unlink()
    assert await sweep_dead(str(site.state)) == SweepReport(left=1)
    assert alive(daemon.children)


async def test_a_guardian_at_work_is_waited_for(site: Site):
    daemon = site.daemon(DEAF)
    processes = site.noted(1)
    wait_until(lambda: any((site.state / "ledger").glob("*.guard")))
    daemon.kill()
    report = await sweep_dead(str(site.state))
    assert not alive(processes)
    assert report.reaped == 0
    assert not procfs.lives(daemon.guardian) or not any((site.state / "ledger").iterdir())


def dead_ledger(site: Site) -> tuple[Path, dict[str, Any]]:
    """Return a ledger as a dead daemon left it, to be changed and written."""
    daemon = site.daemon("NOTE; exec cat")
    path, document = daemon.ledger, json.loads(daemon.ledger.read_text())
    kill_both(daemon)
    wait_until(lambda: not alive(daemon.children))
    return path, document


async def test_a_recycled_pid_is_never_touched(site: Site):
    """B115: the pid of the ledger belongs to an innocent process now, as does its group."""
    path, document = dead_ledger(site)
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as innocent:
        try:
            wait_until(lambda: len([e for e in procfs.scan() if e.sid == innocent.pid]) == 2)
            document["processes"][0]["pid"] = innocent.pid
            document["processes"][0]["seen"] = [[innocent.pid, 7]]
            path.write_text(json.dumps(document))
            assert await sweep_dead(str(site.state)) == SweepReport(dead=1)
            assert len([e for e in procfs.scan() if e.sid == innocent.pid and e.lives]) == 2
        finally:
            os.killpg(innocent.pid, signal.SIGKILL)


@pytest.mark.parametrize("key", ["boot_id", "pid_namespace"])
async def test_another_boot_or_namespace_is_left_alone(site: Site, key: str):
    """
    Pids mean nothing there, and the machine that shares the directory may be up.
    """
    path, document = dead_ledger(site)
    document["daemon"][key] = "another"
    path.write_text(json.dumps(document))
    assert await sweep_dead(str(site.state)) == SweepReport(left=1)
    assert path.exists()


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"format": 1, "daemon": 1}'])
async def test_a_file_that_is_no_ledger_is_set_aside(site: Site, content: str):
    """
    It is no reason not to start; somebody may want to look at it.
    """
    path, _ = dead_ledger(site)
    path.write_text(content)
    report = await sweep_dead(str(site.state))
    assert report == SweepReport(set_aside=(f"{path}.corrupt",))
    assert Path(f"{path}.corrupt").read_text() == content
    assert await sweep_dead(str(site.state)) == SweepReport()


async def test_a_ledger_behind_a_link_is_not_read(site: Site, tmp_path: Path):
    path, document = dead_ledger(site)
    (tmp_path / "elsewhere").write_text(json.dumps(document))
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert (await sweep_dead(str(site.state))).dead == 0
    assert (tmp_path / "elsewhere").exists()


async def test_two_new_daemons_do_not_both_count(site: Site):
    daemon = site.daemon(DEAF)
    site.noted(1)
    kill_both(daemon)
    one, two = await asyncio.gather(sweep_dead(str(site.state)), sweep_dead(str(site.state)))
    assert one.dead + two.dead == 1
    assert one.left + two.left <= 1


async def test_no_ledger_directory_is_nothing_to_do(tmp_path: Path):
    assert await sweep_dead(str(tmp_path / "state")) == SweepReport()


def test_a_ledger_is_private_and_whole_at_every_moment(tmp_path: Path):
    old = os.umask(0)
    try:
        ledger = Ledger(str(tmp_path), "d")
    finally:
        os.umask(old)
    assert (tmp_path / "ledger").stat().st_mode & 0o777 == 0o700
    modes = {each.stat().st_mode & 0o777 for each in (tmp_path / "ledger").iterdir()}
    assert modes == {0o600}
    ledger.close()
    assert os.listdir(tmp_path / "ledger") == []


def test_a_ledger_that_cannot_be_written_is_no_reason_not_to_run(tmp_path: Path):
    """B121: it is said, and the next change writes everything again."""
    ledger = Ledger(str(tmp_path), "d")
    (tmp_path / "ledger").rename(tmp_path / "kept")
    (tmp_path / "ledger").write_text("in the way")
    ledger.save()
    assert isinstance(ledger.trouble, OSError)
    (tmp_path / "ledger").unlink()
    ledger.save()
    assert ledger.trouble is None
    assert json.loads((tmp_path / "ledger" / "d.json").read_text())["processes"] == []
    ledger.close()


async def test_a_guardian_that_never_starts_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    reaper = Reaper("d")
    reaper.start()
    made = guard.Guardian(str(tmp_path / "ledger" / "d.json"), reaper, on_trouble=said.append)
    monkeypatch.setattr(guard, "RETRY_S", 0.01)
    executable = sys.executable
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    try:
        made.start()
        assert made.pid is None
        assert "without it" in said[0]
        monkeypatch.setattr(sys, "executable", executable)
        await wait_until_async(lambda: made.pid is not None)
        await made.farewell()
        assert made.pid is None
    finally:
        reaper.close()
