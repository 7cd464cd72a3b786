"""Cases from the field: time that is given, and processes that are left in peace."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.faults.ground import Watch, installed, odd
from tests.support.daemon import Box, RpcError, is_alive
from tests.support.waiting import wait_until

SLOW = 'while [ -e "$0" ]; do sleep 0.05; done; exec "$@"'
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}}
IDLE_S = 0.1
PINGS = {
    "refuses": '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"Method not found"}}',
    "without_code": '{"jsonrpc":"2.0","id":$ID,"error":{"message":"ping?"}}',
    "odd_text": "ping?",
}


def configure_slow(box: Box) -> None:
    box.fake("slow", startup_timeout=60)
    launch = box.servers["slow"]
    launch["args"] = ["-c", SLOW, str(box.root / "slowly"), launch["command"], *launch["args"]]
    launch["command"] = "sh"


def configure(box: Box) -> None:
    box.fake("works", call_timeout=0.6, call_timeout_max=3)
    box.fake("idle", idle_timeout=IDLE_S)
    box.fake("counts", idle_timeout=IDLE_S, restart={"backoff": 0.05})
    for name, line in PINGS.items():
        odd(box, name, "--ping", line.replace("$", "$$"))


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with servers that take their time."""
    with installed(configure) as made:
        yield made


@pytest.fixture
def slow_box() -> Iterator[Box]:
    """A daemon that knows nothing yet of its only server, which is slow to start."""
    with installed(configure_slow) as made:
        yield made


def pass_by(seconds: float) -> None:
    """Let some time pass in which nothing is to happen."""
    watch = Watch()
    wait_until(lambda: watch.seconds > seconds)


def test_a_slow_start_is_waited_for_and_no_client_waits_with_it(slow_box: Box):
    """
    B022: whoever gave up on ``npx`` too early got nothing, and clients gave up on whoever waited.
    """
    slowly = slow_box.root / "slowly"
    slowly.touch()
    first = slow_box.bridge("slow", handshake=False)
    asked = first.start("initialize", HELLO)  # nothing is known of it yet: this has to wait
    wait_until(lambda: slow_box.status("slow")["state"] == "starting")
    pass_by(1)
    slowly.unlink()
    assert first.finish(asked, 30)["serverInfo"]["name"] == "slow"
    first.notify("notifications/initialized")
    tools = first.request("tools/list", {})
    with slow_box.peer() as peer:
        peer.request("mcpd/stop", {"servers": ["slow"]})
        slowly.touch()
        peer.start("mcpd/start", {"servers": ["slow"]}, ident="start")
        second = slow_box.bridge("slow", handshake=False)
        second.initialize()
        assert second.request("tools/list", {}) == tools
        call = second.start("tools/call", {"name": "echo", "arguments": {"text": "in the end"}})
        assert slow_box.status("slow")["state"] == "starting"
        slowly.unlink()
        assert second.finish(call, 30)["content"][0]["text"] == "in the end"
        peer.finish("start")
    assert slow_box.status("slow")["restarts"] == 0


def test_progress_keeps_a_call_alive_but_not_for_ever(box: Box):
    """
    B040: long calls were ended though their server reported progress, or was never asked to.
    """
    with box.session("works") as session:
        done = session.call("progress", steps=8, ms=200)  # 1.6 s: no answer for longer than 0.6
        assert done["content"][0]["text"] == "done"
        assert not session.inbox  # it had asked for no progress: what came was ours
        with pytest.raises(RpcError) as caught:
            session.call("sleep", ms=5000)
        assert (caught.value.kind, caught.value.data["limit"]) == ("call_timeout", "call_timeout")
        with pytest.raises(RpcError) as caught:
            session.call("progress", steps=100, ms=200)
        assert caught.value.data["limit"] == "call_timeout_max"
        assert box.status("works")["generation"] == 1


@pytest.mark.parametrize("name", PINGS)
def test_a_server_that_does_not_know_ping_is_not_ill(box: Box, name: str):
    """
    B048: healthy servers were restarted at every probe, for a method that newer ones do not have.
    """
    with box.session(name) as session:
        assert session.request("ping") == {}
        session.start("tools/call", {"name": "say", "arguments": {"parts": []}}, ident="given up")
        session.notify("notifications/cancelled", {"requestId": "given up"})  # we ping it for that
        for _ in range(3):
            assert session.text("name") == "name"
            assert session.request("ping") == {}
        assert not session.inbox
    status = box.status(name)
    assert (status["state"], status["generation"], status["errors"]) == ("ready", 1, 0)


def test_what_a_server_remembers_it_remembers_as_long_as_somebody_is_there(box: Box):
    """
    B052: files were gone and pages blank, because each call had a process of its own.
    """
    with box.session("counts") as session, box.session("counts") as other:
        pid = int(session.text("pid"))
        for number in range(1, 6):
            assert session.text("count") == str(2 * number - 1)
            assert other.text("count") == str(2 * number)
            pass_by(2 * IDLE_S)
        before = box.status("counts")["generation"]
        call = session.start("tools/call", {"name": "hang"})
        wait_until(lambda: box.status("counts")["in_flight"] == 1)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RpcError) as caught:  # by this its clients learn of it
            session.finish(call)
        assert caught.value.data["outcome_unknown"] is True
        assert session.text("count") == "1"
        assert box.status("counts")["generation"] == before + 1
    wait_until(lambda: box.status("counts")["state"] == "stopped")
    assert not is_alive(pid)


def test_an_idle_server_is_stopped_and_nobody_notices(box: Box):
    """
    B148: servers held their memory all day, or were stopped in the middle of something.
    """
    echo = {"server": "idle", "tool": "echo", "arguments": {"text": "x"}}
    wait = {"server": "idle", "tool": "sleep", "arguments": {"ms": 8000 * IDLE_S}}
    with box.peer() as peer:
        assert peer.request("mcpd/call", wait, 20)["content"][0]["text"].startswith("slept")
        assert len(box.pids("idle")) == 1
        wait_until(lambda: box.status("idle")["state"] == "stopped")
        wait_until(lambda: not is_alive(box.pids("idle")[0]))
        names = {tool["name"] for tool in peer.request("mcpd/tools", {"server": "idle"})["tools"]}
        assert "echo" in names
        assert box.status("idle")["state"] == "stopped"
        calls = [peer.start("mcpd/call", echo) for _ in range(10)]
        for call in calls:
            assert peer.finish(call)["content"][0]["text"] == "x"
        assert len(box.pids("idle")) == 2
    with box.session(None, capabilities={"elicitation": {}}) as session:
        asked = session.start("tools/call", {"name": "idle__ask", "arguments": {"question": "?"}})
        question = session.take(lambda m: m.get("method") == "elicitation/create", 10, "a question")
        session.request("resources/subscribe", {"uri": "idle://item/1"})
        pass_by(5 * IDLE_S)
        session.send(id=question["id"], result={"action": "decline"})
        session.finish(asked)
        pass_by(5 * IDLE_S)
        session.call("idle__touch", uri="idle://item/1")
        session.take_notification("notifications/resources/updated")
        assert len(box.pids("idle")) <= 3  # of this session no more than one
    wait_until(lambda: box.status("idle")["state"] == "stopped")
