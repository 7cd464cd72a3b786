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
from mcpd.client.process import Process, lock_holder, pid_in_lock
from mcpd.errors import DaemonUnavailable

READY = "print('up', flush=True); "
STUBBORN = f"import signal, time; signal.signal(15, signal.SIG_IGN); {READY} time.sleep(60)"
POLITE = f"import time; {READY} time.sleep(60)"


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
    one = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
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
    process.end()
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
    process.end()
    process.close()
    assert named_mcpd[0].wait() == -signal.SIGTERM


def test_nobody_else_is_ever_ended(named_mcpd: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """
    B115: a pid may be another program's by now.
    """
    process = Process(start(named_mcpd, tmp_path, "sleeper", POLITE))
    with pytest.raises(DaemonUnavailable, match="left alone"):
        process.end()
    process.close()
    assert named_mcpd[0].poll() is None


@pytest.mark.parametrize(
    ("content", "pid"), [("4242\n", 4242), ("", None), ("x", None), ("1", None), ("-5", None)]
)
def test_the_lock_names_who_may_hold_it(tmp_path: Path, content: str, pid: int | None) -> None:
    """
    B115: garbage, and init, are nobody's.
    """
    socket = str(tmp_path / "s")
    assert pid_in_lock(socket) is None
    Path(socket + ".lock").write_text(content)
    assert pid_in_lock(socket) == pid
    assert os.path.exists(socket + ".lock")


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
