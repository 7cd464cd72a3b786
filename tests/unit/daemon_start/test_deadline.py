"""How long the first answer of a daemon is waited for."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd import daemon_process
from mcpd.daemon_start import deadline
from mcpd.daemon_start.deadline import ResponseDeadline
from tests.support.fakelistener import Start, listeners
from tests.support.waiting import wait_until


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def start(tmp_path: Path, path: str) -> Iterator[Start]:
    with listeners(tmp_path, path) as begin:
        yield begin


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "ANSWER_TIMEOUT_S", 0.05)


def test_one_that_may_still_be_loading_is_waited_for(
    start: Start, path: str, connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = start()
    connection.connect(path)
    waiting = ResponseDeadline(connection)
    assert 0 < waiting.remaining() <= deadline.ANSWER_TIMEOUT_S
    time.sleep(2 * deadline.ANSWER_TIMEOUT_S)
    assert waiting.remaining() == deadline.CHECK_S
    assert waiting.pid == daemon.pid
    with monkeypatch.context() as patch:
        patch.setattr(daemon_process, "age", lambda _: deadline.LOAD_TIMEOUT_S)
        assert waiting.remaining() == 0
    assert waiting.remaining() > 0
    Path(path + ".lock").write_text(f"{daemon.pid}\nready\n")
    assert 0 < waiting.remaining() <= deadline.ANSWER_TIMEOUT_S, "it says so before it answers"
    time.sleep(2 * deadline.ANSWER_TIMEOUT_S)
    assert waiting.remaining() == 0
    assert f"unresponsive, pid {daemon.pid}: no answer within" in waiting.error().message


def test_one_that_is_stopped_is_not_waited_for(
    start: Start, path: str, connection: socket.socket
) -> None:
    """
    B114: it loads nothing, however young it is.
    """
    daemon = start()
    connection.connect(path)
    waiting = ResponseDeadline(connection)
    daemon.send_signal(signal.SIGSTOP)
    wait_until(lambda: daemon_process.is_stopped(daemon.pid))
    time.sleep(2 * deadline.ANSWER_TIMEOUT_S)
    assert waiting.remaining() == 0
    error = waiting.error()
    assert "it is stopped" in error.message
    assert error.hint is not None
    assert f"kill -CONT {daemon.pid}" in error.hint
    assert error.details["why"] == "unresponsive"
    daemon.send_signal(signal.SIGCONT)
    wait_until(lambda: not daemon_process.is_stopped(daemon.pid))


def test_what_is_no_daemon_is_not_waited_for(
    start: Start, path: str, connection: socket.socket
) -> None:
    stranger = start("sleeper")
    connection.connect(path)
    waiting = ResponseDeadline(connection)
    assert waiting.pid == stranger.pid
    time.sleep(2 * deadline.ANSWER_TIMEOUT_S)
    assert waiting.remaining() == 0


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
        waiting = ResponseDeadline(connection)
        assert waiting.pid == os.getpid()
        time.sleep(2 * deadline.ANSWER_TIMEOUT_S)
        monkeypatch.setattr(deadline, "MANAGERS", (os.path.basename(sys.orig_argv[0]),))
        assert waiting.remaining() == deadline.CHECK_S
        daemon = start("mcpd", "deaf")
        assert ResponseDeadline(connection).pid == daemon.pid
