"""Who listens, and how long that is waited for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpd import presence
from mcpd.presence import Patience
from tests.support.waiting import wait_until

DAEMON = """
import fcntl, socket, sys, time
lock = open(sys.argv[1] + ".lock", "w")
lock.write(str(__import__("os").getpid()))
lock.flush()
if "unlocked" not in sys.argv:
    fcntl.flock(lock, fcntl.LOCK_EX)
if "deaf" not in sys.argv:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
print("up", flush=True)
time.sleep(60)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def start(tmp_path: Path, path: str) -> Iterator[Start]:
    """Starts ``python …/NAME``, which listens and holds the lock, and never says a word."""
    started: list[subprocess.Popen[str]] = []

    def begin(name: str = "mcpd", *flags: str) -> subprocess.Popen[str]:
        (tmp_path / name).write_text(DAEMON)
        argv = [sys.executable, str(tmp_path / name), path, *flags]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout
        assert started[-1].stdout.readline() == "up\n"
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.communicate()


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "ANSWER_S", 0.05)


def test_one_that_may_still_be_loading_is_waited_for(
    start: Start, path: str, connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = start()
    connection.connect(path)
    patience = Patience(connection)
    assert 0 < patience.left() <= presence.ANSWER_S
    time.sleep(2 * presence.ANSWER_S)
    assert patience.left() == presence.LOOK_AGAIN_S
    assert patience.pid == daemon.pid
    with monkeypatch.context() as patch:
        patch.setattr(presence, "age_of", lambda _: presence.LOADING_S)
        assert patience.left() == 0
    assert patience.left() > 0
    Path(path + ".lock").write_text(f"{daemon.pid}\nready\n")
    assert 0 < patience.left() <= presence.ANSWER_S, "it says so before it answers"
    time.sleep(2 * presence.ANSWER_S)
    assert patience.left() == 0
    assert f"unresponsive, pid {daemon.pid}: no answer within" in patience.exhausted().message


def test_one_that_is_stopped_is_not_waited_for(
    start: Start, path: str, connection: socket.socket
) -> None:
    """
    B114: it loads nothing, however young it is.
    """
    daemon = start()
    connection.connect(path)
    patience = Patience(connection)
    daemon.send_signal(signal.SIGSTOP)
    wait_until(lambda: presence.is_stopped(daemon.pid))
    time.sleep(2 * presence.ANSWER_S)
    assert patience.left() == 0
    error = patience.exhausted()
    assert "it is stopped" in error.message
    assert error.hint is not None
    assert f"kill -CONT {daemon.pid}" in error.hint
    assert error.details["why"] == "unresponsive"
    daemon.send_signal(signal.SIGCONT)
    wait_until(lambda: not presence.is_stopped(daemon.pid))


def test_what_is_no_daemon_is_not_waited_for(
    start: Start, path: str, connection: socket.socket
) -> None:
    stranger = start("sleeper")
    connection.connect(path)
    patience = Patience(connection)
    assert patience.pid == stranger.pid
    time.sleep(2 * presence.ANSWER_S)
    assert patience.left() == 0


def test_where_a_manager_made_the_socket_the_lock_says_who_is_behind_it(
    start: Start, path: str, connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The kernel names who called ``listen``; before anybody has the lock a daemon is being started.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        connection.connect(path)
        patience = Patience(connection)
        assert patience.pid == os.getpid()
        time.sleep(2 * presence.ANSWER_S)
        monkeypatch.setattr(presence, "MANAGERS", (os.path.basename(sys.orig_argv[0]),))
        assert patience.left() == presence.LOOK_AGAIN_S
        daemon = start("mcpd", "deaf")
        assert Patience(connection).pid == daemon.pid


@pytest.mark.parametrize(
    ("name", "flags", "is_it"),
    [("mcpd", (), True), ("mcpd", ("unlocked",), False), ("sleeper", (), False)],
)
def test_a_daemon_is_known_by_its_name_and_its_lock(
    start: Start, path: str, name: str, flags: tuple[str, ...], is_it: bool
) -> None:
    """
    B115: a pid in a file is only a number.
    """
    pid = start(name, *flags).pid
    assert presence.is_daemon_of(pid, path) is is_it
    assert presence.pid_in_lock(path) == pid
    assert not presence.is_daemon_of(pid, path + "2")
    assert not presence.is_daemon_of(os.getpid(), path)


def test_a_lock_whose_file_was_removed_is_still_held(start: Start, path: str) -> None:
    pid = start().pid
    os.unlink(path + ".lock")
    assert presence.is_daemon_of(pid, path)


def test_ages_are_told_in_seconds(start: Start) -> None:
    age = presence.age_of(start().pid)
    assert age is not None
    assert 0 <= age < 60
    assert presence.age_of(2**22 + 1) is None
    assert not presence.is_stopped(2**22 + 1)


@pytest.mark.parametrize(
    ("content", "pid"), [("4242\n", 4242), ("", None), ("x", None), ("1", None), ("-5", None)]
)
def test_the_lock_names_who_may_hold_it(path: str, content: str, pid: int | None) -> None:
    """
    B115: garbage, and init, are nobody's.
    """
    assert presence.pid_in_lock(path) is None
    Path(path + ".lock").write_text(content)
    assert presence.pid_in_lock(path) == pid


@pytest.mark.parametrize(
    ("said", "age"), [("T    00:07", 7), ("S    02:03:04", 7384), ("S 1-00:00:01", 86401)]
)
def test_where_there_is_no_proc_ps_is_asked(
    monkeypatch: pytest.MonkeyPatch, said: str, age: float
) -> None:
    monkeypatch.setattr(presence, "HAVE_PROC", False)
    monkeypatch.setattr(presence, "_ps", lambda *_: iter([said]))
    assert presence.age_of(7) == age
    assert presence.is_stopped(7) is (said[0] == "T")
