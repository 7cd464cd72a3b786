"""Cases from the field: servers that do not start, start late, or start elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from tests.faults.ground import Watch, installed
from tests.support.daemon import Box, RpcError
from tests.support.waiting import scaled, wait_until

FAILS_TWICE = 'echo >> "$0"; [ "$(wc -l < "$0")" -gt 2 ] || exit 1; exec "$@"'
WAITS_FOR_A_FILE = 'until [ -e "$0" ]; do sleep 0.05; done; exec "$@"'


def configure(box: Box) -> None:
    for number in range(4):
        box.fake(f"good{number}")
    box.fake("mute", "--mute")
    box.fake("killed", "--start-delay", 0.5, restart={"backoff": 0.05})
    often = {"max_failures": 0, "backoff": 0.05, "backoff_max": 0.1}  # the aggregate starts it, too
    box.fake("usage", "--no-such-flag", restart=often)
    box.fake("env", env={"ADDED": "1", "LANG": "C.UTF-8"})
    box.fake("bare", inherit_env="none", env={"ADDED": "1"})
    box.settings["list_wait"] = 1.5
    box.env |= {"TMPDIR": str(box.root), "USER": "somebody", "HTTPS_PROXY": "http://proxy:3128"}


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with good servers, and servers that are not."""
    with installed(configure) as made:
        yield made


def test_a_server_that_fails_twice_becomes_ready_by_itself_and_clients_are_told():
    """
    B024: a start that fails once must not be dead for the rest of the session.
    """

    def flaky(box: Box) -> None:
        box.fake("flaky", restart={"backoff": 0.05, "backoff_max": 0.1})
        launch = box.servers["flaky"]
        starts = str(box.root / "starts")
        launch["args"] = ["-c", FAILS_TWICE, starts, launch["command"], *launch["args"]]
        launch["command"] = "sh"
        box.settings["list_wait"] = 0

    with installed(flaky) as box:
        session = box.session(None)
        assert session.request("tools/list", {})["tools"] == []
        session.take_notification("notifications/tools/list_changed")
        names = {tool["name"] for tool in session.request("tools/list", {})["tools"]}
        assert "flaky__echo" in names
        assert session.text("flaky__echo", text="x") == "x"
        assert (box.root / "starts").read_text() == "\n" * 3


def test_who_waits_for_a_server_at_its_own_endpoint_may_ask_again():
    """
    B024: the first try's error is told at once, and is not for ever.
    """

    def broken(box: Box) -> None:
        box.fake("mended", "--crash-if", box.root / "broken", restart={"backoff": 0.05})
        (box.root / "broken").touch()

    with installed(broken) as box, box.session("mended", handshake=False) as session:
        with pytest.raises(RpcError) as caught:
            session.initialize()
        assert caught.value.kind == "server_crashed"
        (box.root / "broken").unlink()
        wait_until(lambda: box.status("mended")["state"] == "ready")
        assert session.initialize()["serverInfo"]["name"] == "mended"
        assert session.text("echo", text="x") == "x"


def test_a_server_that_was_given_up_is_tried_again_for_those_who_lack_its_tools():
    """
    B024: whoever was answered without them never uses it, so no use would ever come.
    """

    def flaky(box: Box) -> None:
        rules = {"backoff": 0.01, "max_failures": 2, "failed_retry": 0.6}
        box.fake("late", "--crash-if", box.root / "broken", restart=rules, era="legacy")
        box.servers["late"]["start"] = "eager"
        box.settings["list_wait"] = 0
        (box.root / "broken").touch()

    with installed(flaky) as box:
        wait_until(lambda: box.status("late")["state"] == "failed")
        session = box.session(None)
        assert session.request("tools/list", {})["tools"] == []
        assert session.request("prompts/list", {})["prompts"] == []
        (box.root / "broken").unlink()
        session.take_notification("notifications/tools/list_changed")
        session.take_notification("notifications/prompts/list_changed")
        assert "late__echo" in {t["name"] for t in session.request("tools/list", {})["tools"]}
        assert "late__greet" in {p["name"] for p in session.request("prompts/list", {})["prompts"]}
        assert session.text("late__echo", text="x") == "x"


def test_a_list_from_before_a_server_is_there_is_told_to_be_old():
    """
    B038: a client's first turn had no tools, and neither had any later one.
    """

    def slow(box: Box) -> None:
        box.fake("slow", start="eager").fake("quick", start="eager")
        launch = box.servers["slow"]
        flag = str(box.root / "go")
        launch["args"] = ["-c", WAITS_FOR_A_FILE, flag, launch["command"], *launch["args"]]
        launch["command"] = "sh"
        box.settings["list_wait"] = 0.3

    with installed(slow) as box:
        wait_until(lambda: box.status("quick")["state"] == "ready")
        session = box.session(None)
        first = {tool["name"] for tool in session.request("tools/list", {})["tools"]}
        assert "quick__echo" in first
        assert "slow__echo" not in first
        (box.root / "go").touch()
        session.take_notification("notifications/tools/list_changed", 20)
        later = {tool["name"] for tool in session.request("tools/list", {})["tools"]}
        assert {"slow__echo", "quick__echo"} <= later


def test_a_server_that_never_answers_delays_no_session_and_no_other_server(box: Box):
    """
    B025: one stalled server delayed the start of every session.
    """
    with box.session("mute", handshake=False) as stuck:
        stuck.start("tools/list", {}, ident="stuck")
        watch = Watch()
        with box.session(None) as session:
            assert watch.seconds < scaled(1)
            tools = session.request("tools/list", {})["tools"]
            assert watch.seconds < scaled(3)
        assert {f"good{n}__echo" for n in range(4)} <= {tool["name"] for tool in tools}


def test_an_environment_is_added_to_and_not_put_in_the_place_of_ours(box: Box):
    """
    B031: an ``env`` block made PATH and HOME vanish. B032: proxies are for servers, too.
    """
    with box.session("env") as session:
        for name in ("HOME", "PATH", "USER", "TMPDIR", "HTTPS_PROXY"):
            assert session.text("env", name=name) == box.env[name]
        assert session.text("env", name="ADDED") == "1"
        assert session.text("env", name="LANG") == "C.UTF-8"
    with box.session("bare") as session:
        assert session.text("env", name="HTTPS_PROXY") == "<unset>"
        assert session.text("env", name="ADDED") == "1"


def test_an_early_exit_is_told_at_once_with_what_the_server_said(box: Box):
    """
    B035: a wrong argument cost the whole time-out, and its usage text was seen by nobody.
    """
    watch = Watch()
    with box.session("usage", handshake=False) as session, pytest.raises(RpcError) as caught:
        session.initialize()
    assert watch.seconds < scaled(3)
    assert caught.value.kind == "server_crashed"
    assert caught.value.data["exit_code"] == 2
    assert "--no-such-flag" in str(caught.value.data)
    assert "usage" in str(caught.value.data) + caught.value.message


def test_a_command_that_does_not_exist_costs_nobody_else_anything():
    """
    B036: one server that could not start took all the others down.
    """

    def mixed(box: Box) -> None:
        box.fake("good", start="eager")
        box.servers["bad"] = {
            "command": "nonexistent-command",
            "start": "eager",
            "restart": {"backoff": 0, "max_failures": 2},
        }

    with installed(mixed) as box:
        wait_until(lambda: box.status("bad")["state"] == "failed")
        assert "nonexistent-command" in box.status("bad")["last_error"]
        with box.session("good") as session:
            assert session.text("echo", text="fine") == "fine"
        with box.session(None) as session:
            assert session.text("good__echo", text="fine") == "fine"
        with box.session("bad", handshake=False) as session, pytest.raises(RpcError) as caught:
            session.initialize()
        assert caught.value.kind == "crash_loop"
        assert "nonexistent-command" in caught.value.message
        assert box.down() == 0


def test_twenty_calls_on_a_dead_server_start_it_once(box: Box):
    """
    B047: each call on a dead server started a restart of its own.
    """
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(box.session("killed")) for _ in range(20)]
        os.kill(int(sessions[0].text("pid")), signal.SIGKILL)
        calls = [(s, s.start("tools/call", {"name": "pid"})) for s in sessions]
        wait_until(lambda: box.status("killed")["state"] == "starting")
        calls += [(s, s.start("tools/call", {"name": "pid"})) for s in sessions]
        said = {session.finish(call)["content"][0]["text"] for session, call in calls}
    assert len(box.pids("killed")) == 2
    assert said == {str(box.pids("killed")[1])}
