"""Cases from the field: processes that outlive their server, and copies of one."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from tests.faults.ground import (
    Watch,
    children_of,
    events,
    installed,
    launched,
    notes,
    npx,
    take_event,
    tree,
    wait_gone,
)
from tests.support.daemon import Box, is_alive
from tests.support.waiting import scaled, wait_until

GRACE = 0.2
WAYS = ("stop", "restart", "changed", "idle")
ENDS_AT_ONCE = 'trap "exit 0" TERM; exec 3<&0; "$@" <&3 3<&- & exec 3<&-; wait'
"""A launcher that ends at SIGTERM and leaves its server to itself."""

CRASHES = 60
DIES_WITH_A_CHILD = "sleep 0.01 & exit 3"


def configure(box: Box) -> None:
    launchers = {"npx": [npx(box)], "bash": ["bash", "-c", '"$@" | cat; exit $?', "bash"]}
    for launcher, argv in launchers.items():
        for way in WAYS:
            idle = {"idle_timeout": 0.3} if way == "idle" else {}
            name, flags = f"{launcher}-{way}", ("--ignore-eof",)
            launched(box, name, *argv, flags=flags, stop_grace=GRACE, **idle)
    deaf = ("--ignore-eof", "--ignore-term")
    launched(box, "leaf", "sh", "-c", ENDS_AT_ONCE, "sh", flags=deaf, stop_grace=GRACE)
    box.fake("edited", *deaf, "--setsid-child", stop_grace=2 * GRACE)
    box.fake("polite", stop_grace=5)
    box.fake("eof", "--ignore-eof", stop_grace=GRACE)
    box.fake("term", *deaf, stop_grace=GRACE)
    box.fake("spins", "--busy-on-eof", "--ignore-term", stop_grace=GRACE)
    for number in range(10):
        box.fake(f"s{number}")
    box.servers["twin"] = dict(box.servers["s0"])
    box.servers["twin"]["env"] = {}


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with a server or two for each test."""
    with installed(configure) as made:
        yield made


@pytest.mark.parametrize("launcher", ["npx", "bash"])
def test_however_a_server_ends_its_launchers_children_end_too(box: Box, launcher: str):
    """
    B001: a signal to the direct child leaves the real server behind, and that by the dozen a day.
    B011: with changed arguments, two copies ran, and the client spoke to the old one.
    """
    names = {way: f"{launcher}-{way}" for way in WAYS}
    tree(box, *names.values())
    trees = {way: set(box.pids(name)) for way, name in names.items()}
    trees |= {way: trees[way] | set(box.status(name)["pids"]) for way, name in names.items()}
    assert all(len(pids) > 1 for way, pids in trees.items() if way != "idle"), trees
    assert box.ctl("stop", names["stop"]).returncode == 0
    assert not any(map(is_alive, trees["stop"]))
    with box.peer() as peer:
        peer.request("mcpd/restart", {"servers": [names["restart"]]})
        assert not any(map(is_alive, trees["restart"]))
        box.servers[names["changed"]]["args"].append("--no-prompts")
        box.write()
        peer.request("mcpd/reload")
    for pids in trees.values():
        wait_gone(pids, 2 * GRACE + 2)


def test_a_changed_server_starts_when_nothing_of_the_old_one_is_left(box: Box):
    """
    B011: and there is but one, with the new arguments.
    """
    with box.session("edited") as session, box.peer() as peer:
        session.text("pid")
        old = set(box.pids("edited"))
        assert len(old) == 2
        box.servers["edited"]["args"].append("--no-prompts")
        box.write()
        peer.request("mcpd/reload")
        pid = int(session.text("pid", 20))
        assert pid not in old
        assert not any(map(is_alive, old))
        assert box.status("edited")["pid"] == pid
        assert not old & set(box.status("edited")["pids"])


def test_a_leaf_that_ignores_sigterm_is_killed_after_its_launcher_has_ended(box: Box):
    """
    B002: who escalates by the launcher alone thinks that all is over.
    """
    pids = tree(box, "leaf")
    assert len(pids) == 2
    watch = Watch()
    with box.peer() as peer:
        peer.request("mcpd/stop", {"servers": ["leaf"]})
        assert not any(map(is_alive, pids))
        assert watch.seconds < scaled(2 * GRACE + 2)
        events(peer, "leaf")
        assert take_event(peer, "server.stopped")["step"] == "kill"


def test_a_polite_server_is_neither_waited_for_nor_signalled(box: Box):
    """
    B006: a stop that never closes stdin takes its whole time-out, each time.
    """
    pids = tree(box, "polite")
    with box.peer() as peer:
        watch = Watch()
        peer.request("mcpd/stop", {"servers": ["polite"]})
        assert watch.seconds < scaled(1.5)
    assert not any(map(is_alive, pids))
    assert [e["bye"] for e in box.journal("polite") if "bye" in e] == ["eof"]


@pytest.mark.parametrize(
    ("name", "step", "byes"),
    [("eof", "term", ["eof", "term"]), ("term", "kill", ["eof", "term"]), ("spins", "kill", None)],
)
def test_a_deaf_server_goes_down_the_ladder(box: Box, name: str, step: str, byes: list[str] | None):
    """
    B005: closing stdin is only the first of three steps, and which one it took is told.
    B007: some spin for days then, at the cost of a core.
    """
    pids = tree(box, name)
    with box.peer() as peer:
        peer.request("mcpd/stop", {"servers": [name]})
    assert not any(map(is_alive, pids))
    if byes:
        assert [e["bye"] for e in box.journal(name) if "bye" in e] == byes
    assert any(note.startswith(f"stopped ({step})") for note in notes(box, name))


def test_thirty_clients_of_ten_servers_are_ten_processes(box: Box):
    """
    B021: a process for each session and server were 149 of one server in one report.
    B080: thirty handshakes at once; the servers see one.
    """
    with contextlib.ExitStack() as stack:
        bridges = [box.bridge(handshake=False) for _ in range(8)]
        clients = [*bridges, *(box.peer() for _ in range(22))]
        for client in map(stack.enter_context, clients):
            client.start("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        for client in clients:
            client.finish(1, 30)
            client.notify("notifications/initialized")
        for client in clients:
            for number in range(10):
                client.start("tools/call", {"name": f"s{number}__pid", "arguments": {}})
        said = [
            [client.finish(2 + number, 30)["content"][0]["text"] for number in range(10)]
            for client in clients
        ]
    assert all(pids == said[0] for pids in said)
    assert [[int(pid)] for pid in said[0]] == [box.pids(f"s{number}") for number in range(10)]
    with box.session("twin") as session, box.session("s0") as other:
        assert session.text("pid") == other.text("pid") == said[0][0]


def test_nothing_is_left_of_six_servers_when_the_daemon_is_killed():
    """
    B004: nobody can handle SIGKILL, so somebody else must.
    """

    def six(box: Box) -> None:
        for number in range(2):
            box.fake(f"plain{number}")
            box.fake(f"deaf{number}", "--ignore-eof", "--ignore-term", stop_grace=9)
            argv, flags = ("sh", "-c", ENDS_AT_ONCE, "sh"), ("--ignore-eof",)
            launched(box, f"tree{number}", *argv, flags=flags, stop_grace=GRACE)

    with installed(six) as box:
        assert len(tree(box, *box.servers)) == 8
        box.down(signal.SIGKILL)
        wait_until(lambda: not box.survivors(), 5, what=lambda: f"the end of {box.survivors()}")


def test_a_new_daemon_ends_what_is_left_and_says_how_much():
    """
    B004: where the guardian went too (out of memory), the ledger still knows them.
    """

    def deaf(box: Box) -> None:
        box.fake("deaf", "--ignore-eof", "--ignore-term", "--setsid-child", stop_grace=GRACE)

    with installed(deaf) as box:
        pids = tree(box, "deaf")
        assert len(pids) == 2
        assert box.daemon
        daemon = box.daemon.pid
        os.kill(daemon, signal.SIGSTOP)  # or it would have a new guardian at once
        for pid in set(children_of(daemon)) - set(pids):
            os.kill(pid, signal.SIGKILL)
        box.down(signal.SIGKILL)
        assert set(box.survivors()) == set(pids)
        box.up()
        wait_gone(pids, 10)
        wait_until(lambda: "ledger.swept" in box.tail(), what=box.tail)
        assert f" processes={len(pids)}" in box.tail()


def test_many_crashes_leave_no_zombie():
    """
    B019: a child that nobody waits for stays in the process table.
    """

    def crashes(box: Box) -> None:
        box.servers["crashes"] = {
            "command": "sh",
            "args": ["-c", DIES_WITH_A_CHILD],
            "start": "eager",
            "restart": {"backoff": 0, "max_failures": 0},
        }

    with installed(crashes) as box:
        wait_until(lambda: box.status("crashes")["generation"] >= CRASHES, 20)
        with box.peer() as peer:
            peer.request("mcpd/stop", {"servers": ["crashes"]})
        assert box.daemon
        daemon = box.daemon.pid
        wait_until(lambda: not children_of(daemon, "Z"), 2)
