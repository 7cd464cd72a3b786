"""Bridges whose real daemon is killed, and the one that they start in its place."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from tests.support.daemon import Box, Peer, RpcError, is_alive
from tests.support.waiting import scaled, wait_until

CONTINUES_S = 5.0
"""What a client may notice of a killed daemon, at most; other people's load comes on top."""


@pytest.fixture
def box() -> Any:
    made = Box()
    yield made
    made.ctl("down", "--force")
    made.close()


def pid_of_daemon(box: Box) -> int:
    with Peer.dial(box.socket) as peer:
        pid: int = peer.request("mcpd/hello")["pid"]
        return pid


def kill(box: Box) -> int:
    """Kill the daemon, whoever started it, and return the pid that it had."""
    pid = pid_of_daemon(box)
    os.kill(pid, signal.SIGKILL)
    if box.daemon is not None and box.daemon.pid == pid:
        box.daemon.wait()
        box.daemon = None
    wait_until(lambda: not is_alive(pid), what="the daemon's death")
    return pid


def kind(peer: Peer, ident: Any) -> str | None:
    with pytest.raises(RpcError) as error:
        peer.finish(ident)
    return error.value.kind


def test_a_killed_daemon_costs_what_was_in_flight_and_nothing_else(box: Box) -> None:
    """
    B053: one error each, at once; and the new process knows the level and what is followed.
    """
    box.fake().up()
    peer = box.bridge("fake")
    peer.request("logging/setLevel", {"level": "debug"})
    uri = peer.request("resources/list")["resources"][0]["uri"]
    peer.request("resources/subscribe", {"uri": uri})
    calls = [peer.start("tools/call", {"name": "hang", "arguments": {}}) for _ in range(2)]
    wait_until(lambda: len(box.messages("fake", "tools/call")) == 2, what="the calls upstream")
    before = box.pids()
    kill(box)
    assert [kind(peer, ident) for ident in calls] == ["outcome_unknown"] * 2
    assert peer.text("echo", timeout=20, text="again") == "again"
    assert box.pids()[len(before) :], "another process"
    assert len(box.messages("fake", "tools/call")) == 3, "nothing is called twice"
    levels = box.messages("fake", "logging/setLevel")
    assert levels[-1]["params"] == {"level": "debug"}
    assert len(box.messages("fake", "resources/subscribe")) == 2
    assert peer.inbox == [], "nothing has changed"
    peer.call("touch", uri=uri)
    assert peer.take_notification("notifications/resources/updated")["uri"] == uri


def test_many_bridges_start_one_daemon(box: Box) -> None:
    box.fake().up()
    peers = [box.bridge("fake") for _ in range(8)]
    for peer in peers:
        peer.request("tools/list")
    kill(box)
    begun = time.monotonic()
    for number, peer in enumerate(peers):
        assert peer.text("echo", timeout=20, text=str(number)) == str(number)
    assert time.monotonic() - begun < scaled(3 * CONTINUES_S)
    log = box.state / "mcpd.log"
    wait_until(lambda: "server.ready" in log.read_text())  # it is written after the first answers
    assert log.read_text().count("daemon.started") == 1
    assert len({pid for pid in box.pids() if is_alive(pid)}) == 1
    assert all(peer.inbox == [] for peer in peers), "the lists are the same"


def test_a_bridge_that_may_start_none_waits_for_whoever_does(box: Box) -> None:
    box.fake().up()
    peer = box.bridge("fake", "--no-start")
    kill(box)
    ident = peer.start("tools/call", {"name": "echo", "arguments": {"text": "late"}})
    assert not (box.state / "mcpd.log").exists()
    box.up()
    assert peer.finish(ident, 20)["content"][0]["text"] == "late"


def test_a_handshake_in_flight_is_made_again(box: Box) -> None:
    """
    It has no effect that could come twice.
    """
    box.fake("fake", "--start-delay", 1).up()
    peer = box.bridge("fake", handshake=False)
    ident = peer.start(
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        },
    )
    wait_until(box.pids, what="the server's start")
    kill(box)
    assert peer.finish(ident, 30)["serverInfo"]["name"] == "fake"
    peer.notify("notifications/initialized")
    assert peer.text("echo", text="hi") == "hi"


def test_a_list_that_changed_meanwhile_is_told_of(box: Box) -> None:
    """
    Not by the server, which has another list from the start, but by whoever was told the old one.
    """
    box.fake().up()
    peer, other = box.bridge("fake"), box.bridge("fake")
    peer.request("tools/list")
    box.servers["fake"]["tools"] = {"deny": ["hang"]}
    box.write()
    kill(box)
    peer.take_notification("notifications/tools/list_changed", 20)
    names = [tool["name"] for tool in peer.request("tools/list")["tools"]]
    assert "hang" not in names
    assert other.text("echo", timeout=20, text="x") == "x"
    assert other.inbox == [], "it never asked"


def test_a_session_whose_server_is_gone_says_so_until_it_is_back(box: Box) -> None:
    box.fake().fake("other").up()
    peer = box.bridge("fake")
    entry = box.servers.pop("fake")
    box.write()
    kill(box)
    assert kind(peer, peer.start("tools/list")) == "server_not_found"
    box.servers["fake"] = entry
    box.write()
    wait_until(lambda: _works(peer), 20, what="the session to go on")


def _works(peer: Peer) -> bool:
    try:
        return peer.text("echo", timeout=20, text="x") == "x"
    except RpcError:
        return False
