"""The daemon as a process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.client import process as module
from mcpd.client.process import Process, lock_holder
from mcpd.errors import DaemonUnavailable
from mcpd.supervise.cleanup import guardian
from tests.support.daemon import is_alive
from tests.support.waiting import wait_until

READY = "print('up', flush=True); "
LOCK = "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX); "
STUBBORN = f"{LOCK}import signal, time; signal.signal(15, signal.SIG_IGN); {READY} time.sleep(60)"
POLITE = f"{LOCK}import time; {READY} time.sleep(60)"
UNLOCKED = f"import time; {READY} time.sleep(60)"


@pytest.fixture
def named_mcpd(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts ``python …/mcpd SCRIPT``; ends what is left of them."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for one in started:
        one.kill()
        one.wait()
        assert one.stdout
        one.stdout.close()


def start(started: list[subprocess.Popen[str]], tmp_path: Path, name: str, code: str) -> int:
    script = tmp_path / name
    script.write_text(code)
    argv = [sys.executable, script, f"{tmp_path}/s.lock"]
    one = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    started.append(one)
    assert one.stdout
    assert one.stdout.readline() == "up\n"
    return one.pid


def test_a_process_that_ends_is_gone_reaped_or_not(
    named_mcpd: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = Process(start(named_mcpd, tmp_path, "mcpd", POLITE))
    ticks: list[float] = []
    assert not process.wait(0.01, ticks.append)
    process.send(signal.SIGKILL)
    assert process.wait(5)
    assert process.wait(0)
    process.close()
    named_mcpd[0].wait()
    late = Process(named_mcpd[0].pid)
    assert late.wait(0)
    late.send(signal.SIGTERM)


@pytest.mark.parametrize(("code", "ended_by"), [(POLITE, 15), (STUBBORN, 9)])
def test_ending_asks_first_and_then_kills(
    named_mcpd: list[subprocess.Popen[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    ended_by: int,
) -> None:
    monkeypatch.setattr(module, "TERM_GRACE_S", 0.2 if ended_by == 9 else 10)
    process = Process(start(named_mcpd, tmp_path, "mcpd", code))
    process.end(str(tmp_path / "s"))
    process.close()
    assert named_mcpd[0].wait() == -ended_by


def test_a_suspended_daemon_ends_too(
    named_mcpd: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """
    B114: it is woken to end by itself, and with it its servers.
    """
    process = Process(start(named_mcpd, tmp_path, "mcpd", POLITE))
    process.send(signal.SIGSTOP)
    process.end(str(tmp_path / "s"))
    process.close()
    assert named_mcpd[0].wait() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("name", "code"), [("sleeper", POLITE), ("mcpd", UNLOCKED)], ids=["no mcpd", "another's"]
)
def test_nobody_else_is_ever_ended(
    named_mcpd: list[subprocess.Popen[str]], tmp_path: Path, name: str, code: str
) -> None:
    """
    B115: a pid may be another program's by now, or the daemon's of another socket.
    """
    process = Process(start(named_mcpd, tmp_path, name, code))
    with pytest.raises(DaemonUnavailable, match="left alone"):
        process.end(str(tmp_path / "s"))
    process.close()
    assert named_mcpd[0].poll() is None


def test_who_clears_up_is_waited_for(
    named_mcpd: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    B114: the servers of a daemon that had to be killed are gone when the command ends.
    """
    monkeypatch.setattr(module, "TERM_GRACE_S", 0.1)
    guardian = tmp_path / "lib" / module.GUARDIANS[0]
    guardian.parent.mkdir(parents=True)
    guardian.write_text("import os, sys, time; os.read(0, 1); time.sleep(0.5)\n")
    child = f"subprocess.Popen([sys.executable, {str(guardian)!r}], stdin=subprocess.PIPE)"
    code = STUBBORN.replace(READY, f"import subprocess; kept = {child}; {READY}")
    process = Process(start(named_mcpd, tmp_path, "mcpd", code))
    # What a process is called can be read a moment after it was started.
    (keeper,) = wait_until(lambda: module._guardians(process.pid))
    process.end(str(tmp_path / "s"))
    process.close()
    assert not is_alive(keeper)


def test_the_guardian_is_known_by_the_path_that_it_has() -> None:
    assert guardian.__file__.endswith(module.GUARDIANS[0])


def test_who_holds_a_lock_is_seen_without_taking_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert lock_holder(str(lock)) is None
    with lock.open("w") as file:
        assert lock_holder(str(lock)) is None
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holder(str(lock)) == os.getpid()
    assert lock_holder(str(lock)) is None


def test_a_table_that_cannot_be_read_tells_of_nobody(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    assert lock_holder(str(lock), table=str(tmp_path / "none")) is None
    odd = tmp_path / "odd"
    odd.write_text(f"1: FLOCK\n2: -> FLOCK ADVISORY WRITE x 0:1:{lock.stat().st_ino} 0 EOF\n")
    assert lock_holder(str(lock), table=str(odd)) is None
