"""Cases from the field: what adds up over days and weeks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.faults.ground import descriptors, installed, memory_kib
from tests.support.daemon import Box, RpcError
from tests.support.waiting import wait_until

LOG_BYTES = 64 << 10
BACKUPS = 2
FLOOD = 'yes "$0" | head -n 3000 >&2; exit 1'
ROUNDS = 50
SESSIONS = 1000


def configure(box: Box) -> None:
    box.settings |= {"log_max_bytes": LOG_BYTES, "log_backups": BACKUPS}
    box.fake("floods", "--stderr", 2_000_000)
    box.servers["loops"] = {
        "command": "sh",
        "args": ["-c", FLOOD, "x" * 100],
        "restart": {"backoff": 0, "max_failures": 4},
    }
    box.fake("visited")
    box.fake("mixed", restart={"backoff": 0})


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with small logs."""
    with installed(configure) as made:
        yield made


def log_sizes(box: Box, name: str) -> list[int]:
    return [path.stat().st_size for path in (box.state / "logs").glob(f"{name}*")]


def test_logs_have_an_end_in_a_flood_and_in_a_crash_loop(box: Box):
    """
    B144: they filled the disk, and the first to notice were other programs.
    """
    with box.session("floods") as session:
        assert session.text("echo", text="x") == "x"
    with box.peer() as peer, pytest.raises(RpcError):
        peer.request("mcpd/start", {"servers": ["loops"]}, 20)
    wait_until(lambda: box.status("loops")["state"] == "failed")
    for name in ("floods", "loops"):
        sizes = log_sizes(box, name)
        assert len(sizes) == BACKUPS + 1
        assert sum(sizes) <= LOG_BYTES * (BACKUPS + 1)
        with box.peer() as peer:
            (last,) = peer.request("mcpd/logs", {"server": name, "lines": 1})["lines"]
        assert last["text"]


def test_calls_that_end_in_any_way_are_forgotten(box: Box):
    """
    B147: what was removed on the happy path alone added up.
    """
    assert box.daemon
    daemon = box.daemon.pid
    calls_of(box, ROUNDS)
    box.write_audit()
    before, memory = descriptors(daemon), memory_kib(daemon)
    for _ in range(2):
        calls_of(box, ROUNDS)
    wait_until(lambda: (told := box.status("mixed"))["in_flight"] == told["sessions"] == 0)
    wait_until(lambda: not any(tables(box).values()), what=lambda: f"empty tables: {tables(box)}")
    wait_until(
        lambda: descriptors(daemon) <= before,
        what=lambda: f"{before}, {os.listdir(f'/proc/{daemon}/fd')}",
    )
    assert memory_kib(daemon) - memory < 4 * 1024


def tables(box: Box) -> dict[str, int]:
    """Return how much the daemon remembers, less what is of whoever asks."""
    with box.peer() as peer:
        told: dict[str, int] = peer.request("mcpd/status")["daemon"]["tables"]
    return {name: count - (name in ("owed", "sessions")) for name, count in told.items()}


def calls_of(box: Box, rounds: int) -> None:
    """Make calls that are answered, refused, fail, time out, are cancelled and abandoned."""
    hang = {"server": "mixed", "tool": "hang", "timeout": 0.05}
    with box.session("mixed") as session, box.peer() as control:
        timed_out = [control.start("mcpd/call", hang) for _ in range(rounds)]
        for number in range(rounds):
            assert session.text("echo", text=str(number)) == str(number)
            session.start("tools/call", {"name": "hang"}, ident=f"cancelled {number}")
            session.notify("notifications/cancelled", {"requestId": f"cancelled {number}"})
            session.start("tools/call", {"name": "hang"}, ident=f"abandoned {number}")
            with pytest.raises(RpcError):
                session.call("nobody has this tool")
        for ident in timed_out:
            with pytest.raises(RpcError) as caught:
                control.finish(ident)
            assert caught.value.kind == "call_timeout"


def test_a_thousand_sessions_that_come_and_go_are_one_process(box: Box):
    """
    B012: a bridge had a process for each session, and ended none where the session just stopped.
    """
    assert box.daemon
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
    with box.session("visited") as session:
        box.write_audit()
        before = descriptors(box.daemon.pid)
        pid = session.text("pid")
        for number in range(SESSIONS):
            peer = box.peer()
            peer.start("mcpd/attach", {"server": "visited"})
            peer.start("initialize", hello)
            if number % 10 == 1:
                peer.send_raw(b'{"jsonrpc":"2.0","id":3,"method":"tools/ca')
            elif number % 10 == 2:
                peer.start("tools/call", {"name": "hang"})
            if number % 10 != 3:  # some go without a word
                peer.finish(2)
            peer.close()
        assert session.text("pid") == pid
        wait_until(lambda: box.status("visited")["sessions"] == 1)
        wait_until(lambda: box.status("visited")["in_flight"] == 0)
        wait_until(lambda: descriptors(box.daemon.pid) <= before)
        assert len(box.pids("visited")) == 1
        assert box.status("visited")["generation"] == 1
