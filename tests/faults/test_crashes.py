"""Cases from the field: calls on servers that die, hang, or stop reading."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.faults.ground import Watch, events, installed, take_event
from tests.support.daemon import Box, Peer, RpcError, is_alive
from tests.support.waiting import scaled, wait_until

BACKOFF = {"backoff": 0.05, "backoff_max": 0.2}
LIST_CHANGED = "notifications/tools/list_changed"
ATTEMPTS = 5


def configure(box: Box) -> None:
    box.fake("killed", restart=BACKOFF)
    box.fake("grows", restart=BACKOFF)
    box.fake("dies", restart={"backoff": 30, "backoff_max": 30})
    box.fake("ledger", "--die-after-calls", 1, restart=BACKOFF)
    box.fake("fails")
    rules = {"backoff": 0.05, "backoff_max": 0.1, "max_failures": ATTEMPTS}
    box.fake("loops", "--crash-if", box.root / "broken", restart=rules, era="legacy")
    box.fake("slow", call_timeout=0.3)
    box.fake("abandoned")
    box.fake("deaf", "--stop-reading", 1, call_timeout=1.5, stop_grace=0.2)
    box.fake("other")


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with a server for each kind of trouble."""
    with installed(configure) as made:
        yield made


def names_of(session: Peer) -> list[str]:
    return [tool["name"] for tool in session.request("tools/list", {})["tools"]]


def test_a_session_goes_on_when_its_server_was_killed(box: Box):
    """
    B039: one call worked after the restart, then the tools were gone until the client restarted.
    """
    with box.session("killed") as session:
        tools, pid = session.request("tools/list", {}), int(session.text("pid"))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid))
        for number in range(10):
            assert session.text("echo", text=f"call {number}") == f"call {number}"
        assert session.request("tools/list", {}) == tools
        status = box.status("killed")
        assert (status["state"], status["generation"], status["restarts"]) == ("ready", 2, 1)
        assert not [m for m in session.inbox if m.get("method") == LIST_CHANGED]


def test_a_restart_that_changes_the_tools_is_told(box: Box):
    """
    B039: the old list stayed. What the dead process had learned to do, the new one has not.
    """
    with box.session("grows") as session:
        session.call("grow", name="learned")
        session.take_notification(LIST_CHANGED)
        assert "learned" in names_of(session)
        os.kill(int(session.text("pid")), signal.SIGKILL)
        session.take_notification(LIST_CHANGED)
        assert "learned" not in names_of(session)


def test_a_call_whose_server_dies_is_told_so_within_a_second(box: Box):
    """
    B043: callers hung, or got an empty success; status went on to say that all was well.
    """
    with box.session("dies") as session, box.peer() as watcher:
        events(watcher, "dies")
        session.text("echo", text="alive")
        watch = Watch()
        with pytest.raises(RpcError) as caught:
            session.call("crash", code=7)
        assert watch.seconds < scaled(1)
        data = caught.value.data
        assert (data["kind"], data["server"], data["exit_code"]) == ("server_crashed", "dies", 7)
        assert "the last words on stderr" in str(data)
        assert take_event(watcher, "server.crashed")["exit_code"] == 7
        assert take_event(watcher, "server.backoff")["delay_s"] <= 30
        status = box.status("dies")
        assert status["pid"] not in box.pids("dies")[:1]
        assert status["restarts"] == 1
        assert "status 7" in status["last_error"]


def test_a_call_that_may_have_had_an_effect_is_never_made_twice(box: Box):
    """
    B044: an automatic retry ran a tool with side effects twice.
    """
    with box.session("ledger") as session:
        with pytest.raises(RpcError) as caught:
            session.call("count")
        assert caught.value.data["outcome_unknown"] is True
        assert len(box.messages("ledger", "tools/call")) == 1
        with pytest.raises(RpcError):  # it says that it only reads; the second death is final
            session.call("echo", text="x")
        assert len(box.messages("ledger", "tools/call")) == 3


def test_an_error_of_a_tool_is_passed_on_and_restarts_nothing(box: Box):
    """
    B044: a retry hid the error that the tool had reported.
    """
    with box.session("fails") as session:
        for _ in range(3):
            result = session.call("fail", text="no such file")
            assert result["isError"] is True
            assert result["content"][0]["text"] == "no such file"
    assert len(box.messages("fails", "tools/call")) == 3
    assert len(box.pids("fails")) == 1


def test_a_crash_loop_ends_and_a_person_ends_that(box: Box):
    """
    B045: no backoff, no cap, and every caller added to it.
    """
    (box.root / "broken").touch()
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(box.peer()) for _ in range(5)]
        asked = {"server": "loops", "tool": "echo", "arguments": {"text": "x"}}
        wait_until(lambda: outcomes(callers, asked) == {"crash_loop"})
    with box.peer() as watcher:
        events(watcher, "loops")
        take_event(watcher, "server.failed")
        told = [m["params"] for m in watcher.inbox]
        starts = [e for e in told if e["event"] == "server.starting"]
        waits = [e["delay_s"] for e in told if e["event"] == "server.backoff"]
        assert len(starts) == ATTEMPTS
        assert len(waits) == ATTEMPTS - 1
        assert all(wait <= 0.1 for wait in waits)
        assert box.status("loops")["state"] == "failed"
        (box.root / "broken").unlink()
        watcher.request("mcpd/start", {"servers": ["loops"]})
    with box.session("loops") as session:
        assert session.text("echo", text="mended") == "mended"


def outcomes(callers: list[Peer], asked: dict[str, object]) -> set[str | None]:
    """Have all callers call at once; return the kinds of error that they got."""
    calls = [caller.start("mcpd/call", asked) for caller in callers]
    kinds = set()
    for caller, ident in zip(callers, calls, strict=True):
        with pytest.raises(RpcError) as caught:
            caller.finish(ident)
        kinds.add(caught.value.kind)
    return kinds


def test_a_call_that_times_out_is_cancelled_and_the_server_stays(box: Box):
    """
    B050: one slow call retired the connection of all. B051: the tool went on, uncancelled.
    """
    with box.session("slow") as session, box.session("slow") as other:
        pid = session.text("pid")
        with pytest.raises(RpcError) as caught:
            session.call("sleep", ms=1500)
        assert caught.value.kind == "call_timeout"
        assert other.text("pid") == session.text("pid") == pid
        (sent,) = [m for m in box.messages("slow", "tools/call") if m["params"]["name"] == "sleep"]
        cancelled = box.messages("slow", "notifications/cancelled")
        assert [m["params"]["requestId"] for m in cancelled] == [sent["id"]]
        late = {"jsonrpc": "2.0", "id": sent["id"], "result": {}}
        session.call("raw_line", line=json.dumps(late))
        assert session.text("echo", text="next") == "next"
        assert not session.inbox


def test_what_a_client_that_left_wanted_is_cancelled(box: Box):
    """
    B051: on a disconnect, too. The handshake, which was ours, never is.
    """
    with box.session("abandoned") as session:
        session.start("tools/call", {"name": "hang"})
        session.start("tools/call", {"name": "hang"})
        wait_until(lambda: len(box.messages("abandoned", "tools/call")) == 2)
    wait_until(lambda: len(box.messages("abandoned", "notifications/cancelled")) == 2)
    cancelled = box.messages("abandoned", "notifications/cancelled")
    calls = [m["id"] for m in box.messages("abandoned", "tools/call")]
    assert sorted(m["params"]["requestId"] for m in cancelled) == sorted(calls)
    wait_until(lambda: box.status("abandoned")["in_flight"] == 0)


def test_a_server_that_stops_reading_hurts_its_own_calls_alone(box: Box):
    """
    B066: the writer blocked with the lock held, and so did closing.
    """
    with (
        box.session("deaf") as session,
        box.session("deaf") as second,
        box.session("other") as fine,
    ):
        assert session.text("echo", text="the last it reads") == "the last it reads"
        big = session.start("tools/call", {"name": "echo", "arguments": {"text": "x" * 3_000_000}})
        small = second.start("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        watch = Watch()
        for _ in range(20):
            assert fine.text("echo", text="quick") == "quick"
        assert watch.seconds < scaled(1.2)
        for peer, ident in ((session, big), (second, small)):
            with pytest.raises(RpcError) as caught:
                peer.finish(ident)
            assert caught.value.kind == "call_timeout"
        watch = Watch()
        fine.request("mcpd/stop", {"servers": ["deaf"]})
        assert watch.seconds < scaled(2)
    assert not any(map(is_alive, box.pids("deaf")))
