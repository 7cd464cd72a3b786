"""A daemon that is started belongs to no client."""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from mcpd.daemon_start import spawn
from mcpd.daemon_start.reach import reach
from mcpd.daemon_start.search import Search
from mcpd.errors import DaemonUnavailable
from tests.support.daemon import is_alive
from tests.support.fakemcpd import Place, start_client
from tests.support.waiting import wait_until


def test_a_daemon_is_started_detached(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    monkeypatch.setenv("MCPD_INSTANCE", "d:s:1")
    monkeypatch.setenv("KEPT", "yes")
    told: list[str] = []
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        reach(place.socket, socket.socket.close, config="some.toml", progress=told.append)
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        os.close(leaked)
    seen = place.seen()
    assert told == ["starting mcpd"]
    assert seen["argv"] == ["--socket", place.socket, "--config", os.path.abspath("some.toml")]
    assert seen["cwd"] == "/"
    assert seen["sid"] == seen["pgid"] == seen["pid"]
    assert seen["blocked"] == 0
    assert not seen["ignored"] & 1 << signal.SIGHUP - 1
    log = str(place.state / "mcpd.log")
    inherited = {fd: target for fd, target in seen["fds"].items() if ".lock" not in target}
    assert inherited == {"0": "/dev/null", "1": "/dev/null", "2": log}
    assert seen["env"]["KEPT"] == "yes"
    assert {"TMUX", "MCPD_INSTANCE", "PWD", "PYTEST_CURRENT_TEST"}.isdisjoint(seen["env"])
    assert os.stat(log).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(place.socket)).st_mode & 0o777 == 0o700


def test_a_daemon_is_not_its_starters_child(place: Place) -> None:
    """
    A bridge may run inside a server, and what descends from a server is stopped with it.
    """
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    reach(place.socket, socket.socket.close)
    assert children.read_text() == before  # nor is the process that waited for it


def test_a_starter_that_is_killed_leaves_the_daemon_and_nothing_else(place: Place) -> None:
    place.behave("silent")
    with start_client(place) as starter:
        wait_until((place.state / "seen").exists)
        (pid,) = place.starts()
        waiter = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert waiter not in (starter.pid, 1)
        starter.kill()
    wait_until(lambda: not is_alive(waiter))
    assert is_alive(pid)


def test_a_daemon_that_cannot_start_says_why_at_once(place: Place) -> None:
    place.behave("exit 2")
    (place.state / "mcpd.log").write_text("a line of yesterday\n")
    began = time.monotonic()
    with pytest.raises(DaemonUnavailable, match="ended with 2") as caught:
        reach(place.socket, socket.socket.close)
    assert time.monotonic() - began < 5
    assert caught.value.message.endswith("\n  scripted complaint")
    assert "yesterday" not in caught.value.message
    assert caught.value.details["why"] == "start_failed"


@pytest.mark.parametrize(("code", "helps"), [(78, True), (73, False), (2, False)])
def test_the_configuration_is_to_be_checked_where_it_is_to_blame(
    place: Place, code: int, helps: bool
) -> None:
    place.behave(f"exit {code}")
    with (
        pytest.raises(DaemonUnavailable) as caught,
        Search(place.socket, config="/etc/a b.json") as search,
    ):
        search.reach(socket.socket.close)
    command = "mcpd --config '/etc/a b.json' --check"
    assert caught.value.hint == (command if helps else None)


def test_a_program_that_cannot_be_run_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "daemon_command", lambda: ["/nonexistent/mcpd"])
    with pytest.raises(DaemonUnavailable, match=r"cannot run /nonexistent/mcpd: No such file"):
        reach(place.socket, socket.socket.close)


def test_a_start_that_cannot_be_made_leaves_no_descriptor(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A session tries again and again, for as long as there is no process to be had.
    """

    def no_process() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", no_process)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with Search(place.socket) as search, pytest.raises(BlockingIOError):
            search.poll()
    assert len(os.listdir("/proc/self/fd")) == before
