"""Clients wait for a daemon, and one of them starts it."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time

import pytest

from mcpd import daemon_process, paths
from mcpd.daemon_start import spawn
from mcpd.daemon_start.reach import reach
from mcpd.daemon_start.search import RECONNECT_PAUSE_S
from mcpd.errors import DaemonUnavailable
from tests.support.daemon import is_alive
from tests.support.fakemcpd import Place, start_client
from tests.support.waiting import wait_until


def test_a_daemon_that_runs_is_not_started_again(place: Place) -> None:
    reach(place.socket, socket.socket.close)
    reach(place.socket, socket.socket.close, progress=lambda _: pytest.fail("nothing to wait for"))
    assert len(place.starts()) == 1


def test_a_dead_daemons_socket_is_no_obstacle(place: Place) -> None:
    """
    B111: the new daemon replaces it; here the fake needs it gone.
    """
    place.listen().close()
    os.unlink(place.socket)
    reach(place.socket, socket.socket.close)
    assert len(place.starts()) == 1


def test_twenty_starters_start_one(place: Place) -> None:
    """
    B112: and all of them find it.
    """
    starters = [start_client(place) for _ in range(20)]
    assert [starter.wait(60) for starter in starters] == [0] * 20
    assert len(place.starts()) == 1


def test_a_lost_race_is_waited_out(place: Place) -> None:
    """
    An ``mcpd`` that ends with 75 found a daemon that may not listen yet.
    """
    place.behave("exit 75")
    with start_client(place) as starter:
        wait_until(place.starts)
        winner = place.listen()
        assert starter.wait(10) == 0
    winner.close()


def test_a_daemon_on_its_way_out_is_succeeded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "RESPAWN_S", 0.02)
    os.mkdir(os.path.dirname(place.socket), 0o700)
    with open(paths.lock_path(place.socket), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with start_client(place) as starter:
            wait_until(lambda: len(place.starts()) > 1)
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert starter.wait(10) == 0


def test_a_daemon_that_never_listens_is_not_waited_for_for_ever(place: Place) -> None:
    place.behave("silent")
    with pytest.raises(DaemonUnavailable, match=r"within 0\.3 s") as caught:
        reach(place.socket, socket.socket.close, timeout=0.3)
    assert caught.value.details["why"] == "start_timeout"
    assert str(place.state / "mcpd.log") in caught.value.message


def test_a_daemon_that_has_lost_its_socket_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    B114: it keeps every other one from starting, whatever is tried.
    """
    place.behave("silent")
    monkeypatch.setattr(daemon_process, "pid_in_lock", lambda _: place.seen()["pid"])
    told = r"holds the lock .*, but its socket .*/mcpd\.sock is not there$"
    with pytest.raises(DaemonUnavailable, match=told) as caught:
        reach(place.socket, socket.socket.close, timeout=1.0)
    assert caught.value.details["pid"] == place.starts()[0]
    assert "mcpctl down --force" in str(caught.value.hint)
    with pytest.raises(DaemonUnavailable, match=told) as caught:
        reach(place.socket, socket.socket.close, may_start=False)
    assert caught.value.details["why"] == "no_socket"
    os.kill(place.starts()[0], signal.SIGKILL)
    wait_until(lambda: not is_alive(place.starts()[0]))
    with pytest.raises(DaemonUnavailable, match="no daemon runs"):
        reach(place.socket, socket.socket.close, may_start=False)


def test_one_that_hangs_up_is_borne_for_a_while(place: Place) -> None:
    """
    It may be on its way out, with another about to take its place.
    """
    greeted: list[float] = []

    def greet(connection: socket.socket) -> str:
        connection.close()
        greeted.append(time.monotonic())
        if len(greeted) < 3:
            raise DaemonUnavailable("the daemon hung up", why="gone")
        return "hello"

    assert reach(place.socket, greet) == "hello"
    assert len(greeted) == 3
    assert greeted[2] - greeted[1] >= RECONNECT_PAUSE_S


@pytest.mark.parametrize(
    ("why", "may_start", "is_borne"),
    [("gone", True, True), ("gone", False, False), ("incompatible", True, False)],
)
def test_what_a_greeting_comes_to_is_said(
    place: Place, why: str, may_start: bool, is_borne: bool
) -> None:
    reach(place.socket, socket.socket.close)  # there is one
    began = time.monotonic()

    def greet(connection: socket.socket) -> None:
        connection.close()
        raise DaemonUnavailable("no good", why=why)

    with pytest.raises(DaemonUnavailable, match="no good"):
        reach(place.socket, greet, may_start=may_start, timeout=0.5)
    assert (time.monotonic() - began >= 0.5) == is_borne
