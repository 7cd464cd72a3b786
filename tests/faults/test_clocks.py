"""Cases from the field: clocks that are set, machines that sleep, a daemon that is stopped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.ground import events, tree
from tests.support.daemon import Box, Json, Peer, RpcError, binary, is_alive
from tests.support.fakeauth import FakeAuth, browse
from tests.support.waiting import scaled, wait_until

HOURS_6 = 6 * 3600
UNMOVED = {"LD_PRELOAD": ""}
"""For servers: a lock's time-out is a time of the kernel's clock, which does not move."""

SKEW_SOURCE = Path(__file__).with_name("skewclock.c")


class Skew:
    """The clocks of a daemon that is started in a box from now on."""

    def __init__(self, box: Box) -> None:
        compiler = shutil.which("cc")
        if compiler is None or sys.platform != "linux":
            pytest.skip("no C compiler for the library that moves a process' clocks")
        library = box.root / "skewclock.so"
        argv = [compiler, "-shared", "-fPIC", "-o", str(library), str(SKEW_SOURCE), "-ldl"]
        subprocess.run(argv, check=True)
        self._file = box.root / "skew"
        self.set(0, 0)
        box.env |= {"LD_PRELOAD": str(library), "MCPD_TEST_SKEW": str(self._file)}

    def set(self, wall: int, monotonic: int) -> None:
        """Move both clocks, by seconds from where they really are."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("qq", wall, monotonic))


def told(peer: Peer) -> list[Json]:
    """Return the events that have come, and those that had when this was asked."""
    peer.request("mcpd/hello")
    return [m["params"] for m in peer.inbox if m.get("method") == "mcpd/event"]


@pytest.mark.parametrize(
    ("wall", "monotonic"),
    [(HOURS_6, 0), (HOURS_6, HOURS_6), (-3600, 0)],
    ids=["wall +6 h", "both +6 h", "wall -1 h"],
)
def test_a_jump_of_the_clocks_ends_nothing(box: Box, wall: int, monotonic: int):
    """
    B154: after a sleep everything was idle, overdue and stopped in one moment.
    """
    skew = Skew(box)
    box.fake("idle", idle_timeout=900, env=UNMOVED)
    box.fake("used", idle_timeout=900, call_timeout=120, env=UNMOVED).up()
    pids = tree(box, "idle", "used")
    watcher = box.peer()
    events(watcher, "idle", "used")
    session = box.session("used")
    call = session.start("tools/call", {"name": "hang", "arguments": {}})
    answer = session.start("tools/call", {"name": "sleep", "arguments": {"ms": 1500}})
    wait_until(lambda: len(box.messages("used", "tools/call")) == 2)
    before = len(told(watcher))
    skew.set(wall, monotonic)
    session.finish(answer, 20)
    assert session.text("echo", text="on we go") == "on we go"
    assert box.session("idle").text("pid") in {str(pid) for pid in pids}
    assert all(map(is_alive, pids))
    assert not [each for each in told(watcher)[before:] if each["event"].startswith("server.")]
    session.request("ping")
    assert not any(message.get("id") == call for message in session.inbox)
    status = box.status("used")
    assert 0 <= status["uptime_s"] < 600
    assert ("clock.jumped" in box.tail(100_000)) == bool(monotonic)


def test_a_daemon_that_was_stopped_times_nothing_out(box: Box):
    """
    B154: what was due meanwhile has its remaining time back, and an answer that lies in the pipe
    is read before anybody says that it did not come.
    """
    box.fake("idle", idle_timeout=4).fake("called", call_timeout=4)
    box.fake("slow", "--start-delay", 3, startup_timeout=4).up()
    pids = tree(box, "idle", "called")
    idle = box.session("idle")  # leaves in a moment, and the server is idle from then on
    session = box.session("called")
    starting = box.session("slow", handshake=False)
    started = starting.start("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    idle.close()
    call = session.start("tools/call", {"name": "sleep", "arguments": {"ms": 200}})
    wait_until(lambda: box.messages("called", "tools/call"))
    assert box.daemon
    box.daemon.send_signal(signal.SIGSTOP)
    time.sleep(6)  # longer than each of the limits, and that is all there is to it
    box.daemon.send_signal(signal.SIGCONT)
    session.finish(call)
    starting.finish(started)
    assert all(map(is_alive, pids))
    assert box.status("idle")["state"] == "ready"
    assert "clock.jumped" in box.tail(100_000)


def test_limits_hold_again_after_a_stop(box: Box):
    """
    The time that is given back is what was left, and no more.
    """
    box.fake("called", call_timeout=2, idle_timeout=2).up()
    (pid,) = tree(box, "called")
    assert box.daemon
    with box.session("called") as session:
        call = session.start("tools/call", {"name": "hang", "arguments": {}})
        wait_until(lambda: box.messages("called", "tools/call"))
        os.kill(box.daemon.pid, signal.SIGSTOP)
        time.sleep(3.5)
        os.kill(box.daemon.pid, signal.SIGCONT)
        with pytest.raises(RpcError) as error:
            session.finish(call, 20)
        assert error.value.kind == "call_timeout"
    wait_until(lambda: not is_alive(pid), 20)


@pytest.mark.parametrize("wall", [HOURS_6, -HOURS_6], ids=["wall +6 h", "wall -6 h"])
def test_a_jump_of_the_wall_clock_costs_a_sign_in_one_renewal_at_most(box: Box, wall: int):
    """
    A token's end is a time of the wall clock. One that seems to be over is renewed once for all
    clients; one that seems to be good and is refused likewise. No refresh token is used twice.
    """
    skew = Skew(box)
    box.env |= {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    box.env.pop("DISPLAY", None)
    with FakeAuth() as auth:
        box.servers["far"] = {"url": auth.url}
        box.up()
        sign_in(box)
        sessions = [box.session("far") for _ in range(20)]
        assert echo(sessions) == 20 and not auth.used("refresh_token")
        skew.set(wall, 0)
        assert echo(sessions) == 20
        assert len(auth.used("refresh_token")) == (1 if wall > 0 else 0)
        auth.expire()
        assert echo(sessions) == 20
        skew.set(0, 0)
        auth.expire()
        assert echo(sessions) == 20
        assert len(auth.used("refresh_token")) == (3 if wall > 0 else 2)
        assert auth.reused == 0 and len(auth.authorizations) == 1
        assert box.status("far")["state"] == "ready"


def sign_in(box: Box) -> None:
    """Sign in to the server ``far``, with a browser that agrees to everything."""
    login = subprocess.Popen(
        [binary("mcpctl"), "login", "far"],
        env=box.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert login.stdout
    for line in login.stdout:
        if found := re.search(r"http://\S+/authorize\?[^\s\"]+", line):
            browse(found[0])
            break
    rest = login.communicate(timeout=scaled(30))[0]
    assert login.returncode == 0, rest


def echo(sessions: list[Peer]) -> int:
    """Call ``echo`` in all sessions at once; return how many were answered with a result."""
    call = {"name": "echo", "arguments": {}}
    asked = [(session, session.start("tools/call", call)) for session in sessions]
    return sum(not session.finish(number, 30).get("isError", False) for session, number in asked)
