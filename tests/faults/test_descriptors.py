"""Cases from the field: descriptors run out, and come back."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ground import answered_by, descriptors, hold, let_go, up_by
from tests.support.daemon import Box, Peer, RpcError
from tests.support.waiting import wait_until

LIMIT = 96
BUSY = 0.1
"""Of one core: what a loop that goes round and round exceeds by far, on a crowded machine too."""


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    try:
        made.fake("there").fake("later", restart={"backoff": 0, "max_failures": 1})
        yield made
    finally:
        made.close()


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_last_descriptors_are_for_nobody_and_all_come_back(box: Box):
    """
    B143: new work failed for days while the daemon looked alive. Whoever comes too late is told
    why, those who are there go on, and half of them hanging up is all it takes.
    """
    up_by(box, f"ulimit -n {LIMIT}")
    assert box.daemon
    with box.session("there") as session:
        assert session.text("echo", text="before") == "before"
        box.write_audit()
        before = descriptors(box.daemon.pid)
        crowd = hold(box, LIMIT)
        late = [peer for peer in crowd if not answered_by(peer)]
        assert 0 < len(late) < len(crowd)
        status = box.ctl("status")
        assert status.returncode == 0, "those that were served give their places to control"
        assert session.text("echo", text="meanwhile") == "meanwhile"
        with box.peer() as other, pytest.raises(RpcError) as refused:
            other.initialize()
        assert refused.value.kind == "rate_limited"
        assert descriptors(box.daemon.pid) < LIMIT - 10, "what is kept back is there"
        let_go(crowd)
        wait_until(lambda: descriptors(box.daemon.pid) <= before)
        with box.session("later") as again:
            assert again.text("echo", text="after") == "after"


def test_a_server_that_finds_no_descriptor_is_not_to_blame(box: Box):
    """
    B143: its start fails with the reason, and is tried again when there is room.
    """
    up_by(box, f"ulimit -n {LIMIT}")
    assert box.daemon
    daemon = box.daemon.pid
    with box.session("there") as session, box.peer() as control:
        session.text("pid")
        box.write_audit()
        before = descriptors(daemon)
        crowd = hold(box, LIMIT)
        wait_until(lambda: "no descriptors left" in box.log.read_text())  # they are let in by turns
        with pytest.raises(RpcError) as caught:
            control.request("mcpd/start", {"servers": ["later"]})
        assert caught.value.kind == "spawn_failed"
        assert caught.value.data["errno"] == "EMFILE"
        assert caught.value.data["retryable"]
        let_go(crowd)
        wait_until(lambda: descriptors(daemon) <= before + 6)  # it may run already
        assert control.request("mcpd/call", {"server": "later", "tool": "pid"})["content"]


def test_with_no_descriptor_at_all_the_daemon_waits_and_goes_on(box: Box):
    """
    B143: nobody is let in, which costs no time; what ends is not taken for gone before that can be
    seen; and it all goes on by itself.
    """
    box.up()
    assert box.daemon
    daemon = box.daemon.pid
    with box.session("later") as session, box.peer() as control:
        pid = int(session.text("pid"))
        limits = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, (1, limits[1]))
        late = Peer.dial(box.socket)
        asked = late.start("mcpd/hello")
        began, spent = time.monotonic(), cpu_s(daemon)
        wait_until(lambda: time.monotonic() > began + 1)
        assert session.text("echo", text="meanwhile") == "meanwhile"
        assert cpu_s(daemon) - spent < BUSY * (time.monotonic() - began)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RpcError):
            control.request("mcpd/call", {"server": "later", "tool": "pid", "timeout": 1})
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, limits)
        assert late.finish(asked)["pid"] == daemon
        assert int(session.text("pid")) != pid
        late.close()


@pytest.mark.parametrize(
    ("restarts", "clients"),
    [(10, 200), pytest.param(1000, 2000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
def test_clients_and_servers_that_are_gone_leave_no_descriptor(
    box: Box, restarts: int, clients: int
):
    """
    B143: after days there were none left. B019: nor do those that ended stay as zombies.
    """
    box.up()
    assert box.daemon
    daemon = box.daemon.pid
    with box.session("later") as session:
        session.text("pid")
        box.write_audit()
        before = descriptors(daemon)
        for number in range(restarts):
            os.kill(int(session.text("pid")), signal.SIGKILL)
            assert session.text("echo", text=str(number)) == str(number)
        for number in range(clients):
            with box.peer() as peer:
                if number % 2:
                    peer.send_raw(b'{"jsonrpc":"2.0","id":1,"met')
                else:
                    peer.request("mcpd/hello")
        wait_until(lambda: descriptors(daemon) <= before)
    assert box.status("later")["restarts"] == restarts


def test_servers_get_the_limit_that_was_there_and_the_daemon_all_there_is(box: Box):
    """
    B155: a service manager's default was too low for the daemon; a raised one breaks servers that
    use select(2).
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    up_by(box, "ulimit -Sn 256")
    with box.session("there") as session, box.peer() as control:
        pid = int(session.text("pid"))
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (256, hard)
        told = control.request("mcpd/status")["daemon"]["nofile"]
    assert (told["soft"], told["hard"]) == (hard, hard)
    assert 5 < told["open"] < 100
