"""How servers live under a real daemon."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import pytest

from tests.support.daemon import Box, Json, Peer, RpcError, is_alive
from tests.support.waiting import scaled, wait_until


def failure_of(peer: Peer, method: str, params: Json, timeout: float = 30.0) -> RpcError:
    with pytest.raises(RpcError) as error:
        peer.request(method, params, timeout)
    return error.value


def call(box: Box, server: str, tool: str = "echo", **arguments: Any) -> Json:
    asked = {"server": server, "tool": tool, "arguments": arguments}
    result: Json = box.peer().request("mcpd/call", asked, 30.0)
    return result


def events_of(watcher: Peer, last: str) -> list[Json]:
    """Return the events up to the first of that name, it included."""
    found: list[Json] = []
    while not found or found[-1]["event"] != last:
        found.append(watcher.take_notification("mcpd/event", 30.0))
    return found


def watch(box: Box, **params: Any) -> Peer:
    watcher = box.peer()
    watcher.request("mcpd/events", params)
    return watcher


# -- starting --------------------------------------------------------------------------------------


def test_an_early_end_is_told_at_once_with_the_last_words(box: Box) -> None:
    """
    B035: nobody waits for the start-up time-out of a process that is gone.
    """
    box.fake("fake", "--no-such-flag", startup_timeout=60).up()
    began = time.monotonic()
    error = failure_of(box.peer(), "mcpd/call", {"server": "fake", "tool": "echo"})
    assert time.monotonic() - began < scaled(5)
    assert (error.kind, error.data["exit_code"]) == ("server_crashed", 2)
    assert any("--no-such-flag" in line for line in error.data["stderr"])
    assert error.message == "fake exited with status 2 before it was ready"


def test_a_command_that_is_not_there_is_told_with_where_it_was_looked_for(box: Box) -> None:
    """
    B029, B036.
    """
    box.fake("good").fake("bad")
    box.servers["bad"]["command"] = "no-such-command-xyz"
    box.up()
    error = failure_of(box.peer(), "mcpd/call", {"server": "bad", "tool": "echo"})
    assert (error.kind, error.data["errno"]) == ("spawn_failed", "ENOENT")
    assert error.data["retryable"] is False, "somebody has to install it"
    assert error.data["searched"]
    assert call(box, "good", text="x")["content"][0]["text"] == "x"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("no-such-command-xyz", "`command -v no-such-command-xyz` in a terminal"),
        ("./no-such-command", "where mcpctl connect runs"),
        ("no-such-command -y x", "mcpctl connect -- no-such-command -y x"),
    ],
)
def test_of_a_command_that_a_client_brings_no_entry_is_to_be_mended(
    box: Box, command: str, says: str
) -> None:
    bridge = box.up().bridge("--", command, handshake=False)
    with pytest.raises(RpcError) as caught:
        bridge.initialize()
    hint = caught.value.data["hint"]
    assert caught.value.kind == "spawn_failed"
    assert says in hint
    assert not [word for word in ("`command`", "`env`", "`cwd`", "entry", "daemon") if word in hint]


def test_only_so_many_start_at_a_time(box: Box) -> None:
    """
    B026: and the time in the queue is not start-up time.
    """
    box.settings["max_concurrent_starts"] = 2
    for number in range(6):
        box.fake(f"s{number}", "--start-delay", 0.4, startup_timeout=1.5, start="eager")
    box.up()
    watcher = box.peer()
    watcher.request("mcpd/events", {"since": 0})
    starting, most, ready = 0, 0, 0
    while ready < 6:
        event = watcher.take_notification("mcpd/event", 30.0)
        if event["event"] == "server.starting":
            starting += 1
        elif event["event"] == "server.ready":
            starting -= 1
            ready += 1
        assert event["event"] != "server.crashed", event
        most = max(most, starting)
    assert most == 2


def test_many_callers_of_one_server_start_one_process_and_get_one_error(box: Box) -> None:
    """
    B047.
    """
    box.fake("fake", "--crash-at-start", 3, restart={"backoff": 30}).up()
    peers = [box.peer() for _ in range(20)]
    asked = [p.start("mcpd/call", {"server": "fake", "tool": "pid"}) for p in peers]
    kinds = set()
    for peer, ident in zip(peers, asked, strict=True):
        with pytest.raises(RpcError) as error:
            peer.finish(ident, 30.0)
        kinds.add(error.value.kind)
    assert kinds == {"server_crashed"}
    assert len(box.pids()) <= 2


def test_one_that_is_mute_is_ended_and_told(box: Box) -> None:
    box.fake("fake", "--mute", startup_timeout=0.5, restart={"backoff": 30}).up()
    error = failure_of(box.peer(), "mcpd/call", {"server": "fake", "tool": "echo"})
    assert error.kind == "startup_timeout"
    assert error.data["limit"] == "startup_timeout"
    wait_until(lambda: not any(map(is_alive, box.pids())))


# -- failing ---------------------------------------------------------------------------------------


def test_a_crash_is_told_with_how_and_with_the_last_words(box: Box) -> None:
    """
    B043.
    """
    box.fake(restart={"backoff": 0.05}).up()
    session = box.session()
    error = failure_of(session, "tools/call", {"name": "crash", "arguments": {"code": 7}})
    assert (error.kind, error.data["exit_code"]) == ("server_crashed", 7)
    assert error.data["outcome_unknown"] is True
    assert error.data["hint"] == "mcpctl logs fake"
    assert error.data["stderr"]
    hanging = session.start("tools/call", {"name": "hang", "arguments": {}})
    wait_until(
        lambda: any(m["params"]["name"] == "hang" for m in box.messages("fake", "tools/call"))
    )
    began = time.monotonic()
    os.kill(box.status()["pid"], signal.SIGKILL)
    with pytest.raises(RpcError) as killed:
        session.finish(hanging)
    assert killed.value.data["signal"] == "SIGKILL"
    assert time.monotonic() - began < scaled(1)


def test_a_crash_is_a_line_of_events(box: Box) -> None:
    box.fake(restart={"backoff": 0.05}).up()
    session = box.session()
    session.text("pid")
    watcher = watch(box)
    failure_of(session, "tools/call", {"name": "crash", "arguments": {"code": 7}})
    found = events_of(watcher, "server.ready")
    names = [each["event"] for each in found]
    assert names == ["server.crashed", "server.backoff", "server.starting", "server.ready"]
    assert found[0]["exit_code"] == 7
    assert 0 <= found[1]["delay_s"] <= 0.05
    assert found[3]["generation"] == 2
    assert box.status()["restarts"] == 1


def test_what_a_crashed_server_left_is_ended_before_the_next_starts(box: Box) -> None:
    """
    B001, B011.
    """
    box.fake("fake", "--setsid-child", restart={"backoff": 0.0}).up()
    session = box.session()
    session.text("pid")
    first = box.pids()
    assert len(first) == 2
    os.kill(first[0], signal.SIGKILL)
    session.text("pid", 20.0)
    assert not any(map(is_alive, first))


def test_a_server_that_fails_twice_is_ready_the_third_time_by_itself(box: Box) -> None:
    """
    B024.
    """
    flag = box.root / "broken"
    flag.touch()
    box.fake("fake", "--crash-if", flag, restart={"backoff": 0.05}).up()
    watcher = watch(box)
    failure_of(box.peer(), "mcpd/call", {"server": "fake", "tool": "echo"})
    events_of(watcher, "server.backoff")
    flag.unlink()
    events_of(watcher, "server.ready")


def test_one_that_fails_too_often_answers_at_once_until_its_entry_changes(box: Box) -> None:
    """
    B045, B108.
    """
    box.fake("fake", "--crash-at-start", 3, restart={"backoff": 0.01, "max_failures": 2}).up()
    watcher = watch(box)
    failure_of(box.peer(), "mcpd/call", {"server": "fake", "tool": "echo"})
    events_of(watcher, "server.failed")
    error = failure_of(box.peer(), "mcpd/call", {"server": "fake", "tool": "echo"}, 2.0)
    assert error.kind == "crash_loop"
    assert error.data["stderr"]
    spawned = len(box.pids())
    box.fake().write()
    assert box.peer().request("mcpd/reload")["changed"] in (["fake"], [])
    assert call(box, "fake", text="mended")["content"][0]["text"] == "mended"
    assert len(box.pids()) == spawned + 1


def test_a_server_that_closes_its_stdout_is_replaced(box: Box) -> None:
    """
    It lives, and can answer nothing any more.
    """
    script = (
        "import json, os, sys, time\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    if m.get('method') == 'initialize':\n"
        "        r = {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}},\n"
        "             'serverInfo': {'name': 'x', 'version': '1'}}\n"
        "    elif m.get('method') == 'tools/list':\n"
        "        r = {'tools': [{'name': 't', 'inputSchema': {'type': 'object'}}]}\n"
        "    elif m.get('method') == 'tools/call':\n"
        "        os.close(1); time.sleep(600)\n"
        "    else:\n"
        "        continue\n"
        "    os.write(1, json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': r}).encode() + b'\\n')\n"
    )
    box.servers["odd"] = {"command": sys.executable, "args": ["-c", script], "stop_grace": 0.2}
    box.up()
    session = box.session("odd")
    error = failure_of(session, "tools/call", {"name": "t", "arguments": {}})
    assert error.kind == "server_crashed"
    assert "stdout" in error.message
    assert len(session.request("tools/list")["tools"]) == 1


def test_a_clean_end_is_no_crash(box: Box) -> None:
    box.fake(restart={"max_failures": 1}).up()
    session = box.session()
    watcher = watch(box)
    error = failure_of(session, "tools/call", {"name": "crash", "arguments": {"code": 0}})
    assert error.data["exit_code"] == 0
    events_of(watcher, "server.stopped")
    assert box.status()["state"] == "stopped"
    assert session.text("echo", 20.0, text="again") == "again"


# -- people ----------------------------------------------------------------------------------------


def test_starting_reports_the_failure_of_that_one_attempt(box: Box) -> None:
    box.fake("fake", "--crash-at-start", 3, restart={"backoff": 30}).up()
    for _ in range(2):
        error = failure_of(box.peer(), "mcpd/start", {"servers": ["fake"]})
        assert (error.kind, error.data["exit_code"]) == ("server_crashed", 3)
    box.servers["fake"]["command"] = "no-such-command-xyz"
    box.write()
    box.peer().request("mcpd/reload")
    assert failure_of(box.peer(), "mcpd/start", {"servers": ["fake"]}).kind == "spawn_failed"


def test_of_several_that_are_started_each_is_waited_for_and_told(box: Box) -> None:
    box.fake("good").fake("bad", "--crash-at-start", 3, restart={"backoff": 30})
    box.servers["lost"] = {"command": "no-such-command-xyz", "restart": {"backoff": 30}}
    box.up()
    names = ["good", "bad", "lost"]
    for verb in ("start", "restart"):
        error = failure_of(box.peer(), f"mcpd/{verb}", {"servers": names})
        assert (error.kind, error.data["server"], error.data["exit_code"]) == (
            "server_crashed",
            "bad",
            3,
        )
        good, bad, lost = error.data["servers"]
        assert (good["name"], good["state"], "error" in good) == ("good", "ready", False)
        assert bad["error"]["message"] == error.message
        assert (lost["pid"], lost["error"]["data"]["kind"]) == (None, "spawn_failed")
        done = box.ctl(verb, *names)
        assert done.returncode == 4
        assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == names
        assert "mcpctl: bad exited with status 3" in done.stderr
        assert "mcpctl: lost cannot be started" in done.stderr
    told = json.loads(box.ctl("start", "--all", "--json").stdout)["error"]["data"]
    assert [each["name"] for each in told["servers"]] == names


def test_start_stop_and_restart_return_when_the_state_is_reached(box: Box) -> None:
    box.fake("a").fake("b", "--setsid-child", "--ignore-eof", stop_grace=0.2).up()
    peer = box.peer()
    started = peer.request("mcpd/start", {"servers": ["a", "b"]}, 30.0)["servers"]
    assert [(each["name"], each["state"]) for each in started] == [("a", "ready"), ("b", "ready")]
    again = peer.request("mcpd/start", {"servers": ["a"]})["servers"]
    assert again[0]["pid"] == started[0]["pid"]
    restarted = peer.request("mcpd/restart", {"servers": ["b"]}, 30.0)["servers"][0]
    assert restarted["state"] == "ready"
    assert not is_alive(started[1]["pid"])
    before = [pid for pid in box.pids("b") if is_alive(pid)]
    assert len(before) == 2
    stopped = peer.request("mcpd/stop", {"servers": ["b"]}, 30.0)["servers"]
    assert stopped == [{"name": "b", "state": "stopped", "pid": None, "step": "term"}]
    assert not any(map(is_alive, before))
    assert failure_of(peer, "mcpd/stop", {"servers": ["a", "nope"]}).kind == "server_not_found"
    assert box.status("a")["state"] == "ready"


def test_entries_with_equal_launches_share_and_are_stopped_apart(box: Box) -> None:
    """
    B021, B085.
    """
    box.fake("one", env={"A": "1", "B": "2"})
    box.servers["two"] = {**box.servers["one"], "env": {"B": "2", "A": "1"}}
    box.servers["other"] = {**box.servers["one"], "env": {"A": "1", "B": "3"}}
    box.up()
    pid = box.session("one").text("pid")
    two = box.session("two")
    assert two.text("pid") == pid
    assert box.session("other").text("pid") != pid
    peer = box.peer()
    peer.request("mcpd/stop", {"servers": ["one"]})
    assert is_alive(int(pid))
    assert two.text("pid") == pid
    error = failure_of(box.peer(), "mcpd/call", {"server": "one", "tool": "pid"})
    assert error.kind == "server_stopped"
    assert error.data["hint"] == "mcpctl start one"
    peer.request("mcpd/stop", {"servers": ["two"]}, 20.0)
    assert not is_alive(int(pid))
    peer.request("mcpd/start", {"servers": ["one"]}, 20.0)
    assert call(box, "one", "pid")
    assert (
        failure_of(box.peer(), "mcpd/call", {"server": "two", "tool": "pid"}).kind
        == "server_stopped"
    )


def test_a_restart_keeps_what_waits(box: Box) -> None:
    box.fake("fake", "--start-delay", 0.5).up()
    session = box.session()
    first = session.text("pid", 20.0)
    peer = box.peer()
    restarting = peer.start("mcpd/restart", {"servers": ["fake"]})
    wait_until(lambda: box.status()["state"] in ("stopping", "starting"))
    assert session.text("pid", 20.0) != first
    assert peer.finish(restarting)["servers"][0]["state"] == "ready"


def test_giving_up_waiting_does_not_stop_the_start(box: Box) -> None:
    box.fake("fake", "--start-delay", 0.5).up()
    peer = box.peer()
    ident = peer.start("mcpd/start", {"servers": ["fake"]})
    wait_until(lambda: box.status()["state"] == "starting")
    peer.notify("notifications/cancelled", {"requestId": ident})
    wait_until(lambda: box.status()["state"] == "ready", 20)
    assert peer.request("mcpd/hello")["api"] == 1
    assert not [m for m in peer.inbox if m.get("id") == ident]


def test_each_session_may_have_its_process_and_control_calls_theirs(box: Box) -> None:
    """
    B084.
    """
    box.fake(sharing="session").up()
    one, two = box.session(), box.session()
    pids = {
        int(one.text("pid")),
        int(two.text("pid")),
        int(call(box, "fake", "pid")["content"][0]["text"]),
    }
    assert len(pids) == 3
    status = box.status()
    assert {each["pid"] for each in status["instances"]} == pids
    assert sorted(each["key"].partition(":")[0] for each in status["instances"]) == [
        "control",
        "session",
        "session",
    ]
    assert status["pid"] is None
    assert set(status["pids"]) == pids
    one.close()
    wait_until(lambda: len(box.status()["instances"]) == 2)


def test_an_ad_hoc_server_is_called_after_its_command_and_listed_nowhere_else(box: Box) -> None:
    box.fake("conf").up()
    entry = {**box.servers["conf"], "env": dict(box.env), "inherit_env": "none"}
    entry["args"] = [*entry["args"], "--instructions", "brought"]
    peer = box.peer()
    name = peer.request("mcpd/attach", {"command": entry})["server"]
    assert name.startswith("fakeserver-")
    peer.initialize()
    assert peer.text("echo", text="x") == "x"
    status = box.status(name)
    assert status["state"] == "ready"
    assert status["sessions"] == 1
    aggregate = box.session(None)
    tools = [tool["name"] for tool in aggregate.request("tools/list", timeout=20.0)["tools"]]
    assert all(tool.startswith("conf__") for tool in tools)
    assert (
        failure_of(box.peer(), "mcpd/attach", {"command": {"command": 5}}).kind == "config_invalid"
    )


@pytest.mark.parametrize(
    ("entry", "limit"), [({"call_timeout": 0.2}, {}), ({}, {"timeout": 1})], ids=["its", "ours"]
)
def test_a_call_whose_time_is_over_has_failed_whoever_set_the_limit(
    box: Box, entry: Json, limit: Json
) -> None:
    """
    Ours counts from when the daemon is asked: a call that is not made in that time is none.
    """
    box.fake("fake", **entry).up()
    box.peer().request("mcpd/start", {"servers": ["fake"]}, 20)
    sleep = {"server": "fake", "tool": "sleep", "arguments": {"ms": 9000}, **limit}
    assert failure_of(box.peer(), "mcpd/call", sleep).kind == "call_timeout"
    status = box.status()
    assert (status["calls"], status["errors"]) == (1, 1)


def test_of_a_daemon_that_nobody_uses_the_tables_hold_who_asks(box: Box) -> None:
    box.fake().up()
    tables = box.peer().request("mcpd/status")["daemon"]["tables"]
    assert {name: held for name, held in tables.items() if held} == {"sessions": 1, "owed": 1}


# -- what is said ----------------------------------------------------------------------------------


def test_logs_are_kept_and_followed(box: Box) -> None:
    """
    B062.
    """
    box.fake("fake", "--noise", "--stderr", 300).up()
    follower = box.peer()
    assert follower.request("mcpd/logs", {"server": "fake", "follow": True}) == {"lines": []}
    box.session().text("pid")
    seen = [follower.take_notification("mcpd/log") for _ in range(3)]
    assert seen[0]["source"] == "mcpd"
    assert seen[0]["text"].startswith("starting")
    lines = box.peer().request("mcpd/logs", {"server": "fake", "lines": 1000})["lines"]
    assert {"stderr", "stdout", "mcpd"} == {line["source"] for line in lines}
    assert any(line["text"] == "Fake server is starting..." for line in lines)
    assert len(box.peer().request("mcpd/logs", {"server": "fake", "lines": 2})["lines"]) == 2
    own = box.peer().request("mcpd/logs", {})["lines"]
    assert any("daemon.started" in line["text"] for line in own)
    assert failure_of(box.peer(), "mcpd/logs", {"server": "nope"}).kind == "server_not_found"


def test_events_are_narrowed_and_replayed(box: Box) -> None:
    box.fake("a").fake("b").up()
    box.session("a").text("pid")
    box.session("b").text("pid")
    replay = box.peer()
    last = replay.request("mcpd/events", {"servers": ["b"], "since": 0})["seq"]
    found = events_of(replay, "server.ready")
    assert {each.get("server", "b") for each in found} == {"b"}
    later = box.peer()
    assert later.request("mcpd/events", {"since": last})["seq"] >= last
    box.session("a").close()
    opened = later.take_notification("mcpd/event")
    assert opened["seq"] > last
    assert opened["event"] == "session.opened"


def test_lists_answer_while_a_server_sleeps_also_after_the_daemon(box: Box) -> None:
    """
    B038, B148.
    """
    box.fake("fake", "--instructions", "kind").up()
    box.session().text("pid")
    assert box.down() == 0
    spawned = len(box.pids())
    box.up()
    session = box.session()
    assert "echo" in [tool["name"] for tool in session.request("tools/list")["tools"]]
    assert box.peer().request("mcpd/tools", {"server": "fake"})["tools"][0]["name"] == "echo"
    assert len(box.pids()) == spawned
    assert box.status()["state"] == "stopped"
    assert box.status()["tools"] > 10
    assert session.text("echo", 20.0, text="x") == "x"


def test_what_is_listed_of_a_server_that_a_client_brought_hides_its_environment(box: Box) -> None:
    """
    It is all that the client has, and not every secret has a name that says so.
    """
    box.env["MYCORP_CRED"] = "swordfish"
    box.fake().up()
    box.bridge("--", box.servers["fake"]["command"], *box.servers["fake"]["args"])
    listed = box.peer().request("mcpd/list")
    environment = listed["servers"][1]["config"]["env"]
    assert environment["MYCORP_CRED"] == "***"
    assert {*environment.values()} == {"***"}
    assert "swordfish" not in json.dumps(listed)


def test_what_is_listed_of_the_configuration_hides_secrets(box: Box) -> None:
    """
    B139.
    """
    box.env["FILES_TOKEN"] = "hunter2-hunter2"
    box.fake("fake", env={"TOKEN": "${FILES_TOKEN}", "PLAIN": "visible"}).fake("off", enabled=False)
    box.servers["bad"] = {"command": 5}
    box.up()
    session = box.session()
    assert session.text("env", name="TOKEN") == "hunter2-hunter2"
    session.call("raw_line", line="noise with hunter2-hunter2")
    listed = box.peer().request("mcpd/list")
    assert [each["name"] for each in listed["servers"]] == ["fake", "off", "bad"]
    assert listed["servers"][0]["config"]["env"]["PLAIN"] == "visible"
    assert listed["servers"][2]["config"] is None
    assert "command" in listed["errors"][0]
    logs = box.peer().request("mcpd/logs", {"server": "fake", "lines": 1000})
    status = box.peer().request("mcpd/status")
    events = box.peer()
    events.request("mcpd/events", {"since": 0})
    events.request("mcpd/hello")
    shown = json.dumps([listed, logs, status, events.inbox]) + box.tail(100000)
    assert "noise with ***" in shown
    assert "hunter2" not in shown
    states = {each["name"]: each["state"] for each in status["servers"]}
    assert states == {"fake": "ready", "off": "disabled", "bad": "misconfigured"}
