"""Reading the configuration again under a running daemon."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Box, Json, Peer, RpcError, is_alive
from tests.support.waiting import wait_until


@pytest.fixture
def quiet(box: Box) -> Box:
    """Files are read when asked, not when they change: then it is known what did what."""
    box.settings["watch"] = False
    return box


def reload(box: Box) -> Json:
    told: Json = box.write().peer().request("mcpd/reload", timeout=30.0)
    return told


def names(peer: Peer) -> list[str]:
    return [tool["name"] for tool in peer.request("tools/list", timeout=20.0)["tools"]]


def test_nothing_new_is_nothing_to_do(quiet: Box) -> None:
    quiet.fake().up()
    pid = quiet.session().text("pid")
    told = reload(quiet)
    assert told.pop("applied") is True
    assert told == {"added": [], "removed": [], "changed": [], "unchanged": ["fake"], "errors": []}
    assert quiet.session().text("pid") == pid


def test_a_filter_is_changed_without_a_restart_and_the_sessions_are_told(quiet: Box) -> None:
    """
    B108.
    """
    quiet.fake().up()
    session = quiet.session()
    pid = session.text("pid")
    quiet.servers["fake"]["tools"] = {"allow": ["pid", "echo"]}
    assert reload(quiet)["changed"] == ["fake"]
    session.take(lambda m: m.get("method") == "notifications/tools/list_changed", 5.0)
    assert sorted(names(session)) == ["echo", "pid"]
    assert session.text("pid") == pid


def test_a_setting_is_changed_without_a_restart(quiet: Box) -> None:
    """
    Only what a process could notice is a reason to replace it.
    """
    quiet.fake().up()
    session = quiet.session()
    pid = session.text("pid")
    quiet.servers["fake"] |= {"idle_timeout": 0.3, "call_timeout": 0.3}
    assert reload(quiet)["changed"] == ["fake"]
    assert session.text("pid") == pid
    with pytest.raises(RpcError) as error:
        session.call("hang")
    assert error.value.kind == "call_timeout"
    session.close()
    wait_until(lambda: quiet.status()["state"] == "stopped")


def test_another_launch_is_another_process_and_the_sessions_stay(quiet: Box) -> None:
    """
    B011, B108: calls in flight are let finish, and no two processes run at a time.
    """
    quiet.fake("fake", env={"A": "1"}).fake("same").up()
    session, same = quiet.session(), quiet.session("same")
    pid, other = session.text("pid"), same.text("pid")
    slow = session.start("tools/call", {"name": "sleep", "arguments": {"ms": 600}})
    wait_until(lambda: quiet.messages("fake", "tools/call")[-1]["params"]["name"] == "sleep")
    quiet.servers["fake"]["env"] = {"A": "2"}
    assert reload(quiet)["changed"] == ["fake"]
    assert session.finish(slow)["content"][0]["text"] == "slept 600"
    assert session.text("env", 20.0, name="A") == "2"
    assert session.text("pid") != pid
    wait_until(lambda: not is_alive(int(pid)))
    assert same.text("pid") == other


def test_a_removed_server_is_not_found_until_it_is_back(quiet: Box) -> None:
    quiet.fake("fake").fake("stays").up()
    session = quiet.session()
    pid = int(session.text("pid"))
    entry = quiet.servers.pop("fake")
    assert reload(quiet)["removed"] == ["fake"]
    wait_until(lambda: not is_alive(pid))
    with pytest.raises(RpcError) as error:
        session.call("echo", text="x")
    assert error.value.kind == "server_not_found"
    quiet.servers["fake"] = entry
    assert reload(quiet)["added"] == ["fake"]
    assert session.text("echo", 20.0, text="back") == "back"


def test_a_bad_entry_changes_itself_alone(quiet: Box) -> None:
    """
    B100: what runs goes on with its last good entry, and says what is wrong with the new one.
    """
    quiet.fake("fake").fake("other").up()
    session = quiet.session()
    pid = session.text("pid")
    good: Any = quiet.servers["fake"]["args"]
    quiet.servers["fake"]["args"] = "all in one"
    quiet.fake("new")
    told = reload(quiet)
    assert told["added"] == ["new"]
    assert any("mcpServers.fake.args" in error for error in told["errors"])
    assert session.text("pid") == pid
    assert "args" in quiet.status()["last_error"]
    assert reload(quiet)["errors"] == told["errors"], "they stand, each time it is asked"
    quiet.servers["fake"]["args"] = good
    assert reload(quiet)["errors"] == []
    assert session.text("pid") == pid
    assert quiet.status()["last_error"] is None


def test_a_bad_entry_that_is_mended_works(quiet: Box) -> None:
    quiet.fake("fake", args="wrong").up()
    assert quiet.status()["state"] == "misconfigured"
    told = [line for line in quiet.tail().splitlines() if "config.error" in line]
    assert len(told) == 1
    assert f'problem="{quiet.config}, line' in told[0], "also at the start: file, line, column, key"
    with pytest.raises(RpcError) as error:
        quiet.session(handshake=False)
    assert error.value.kind == "config_invalid"
    quiet.fake("fake")
    reload(quiet)
    assert quiet.session().text("echo", text="x") == "x"


def test_a_broken_file_changes_nothing(quiet: Box) -> None:
    """
    I14.
    """
    quiet.fake().up()
    session = quiet.session()
    pid = session.text("pid")
    quiet.config.write_text("{ nonsense")
    told = quiet.peer().request("mcpd/reload")
    assert told["unchanged"] == ["fake"]
    assert "line 1" in told["errors"][0]
    assert told["applied"] is False
    assert session.text("pid") == pid
    told = reload(quiet)
    assert (told["errors"], told["applied"]) == ([], True)


def test_a_server_that_was_stopped_goes_on_with_a_new_entry(quiet: Box) -> None:
    quiet.fake().up()
    quiet.peer().request("mcpd/stop", {"servers": ["fake"]})
    assert quiet.status()["held"] is True
    reload(quiet)
    assert quiet.status()["held"] is True
    quiet.servers["fake"]["idle_timeout"] = 100
    reload(quiet)
    assert quiet.status()["held"] is False
    assert quiet.session().text("echo", text="x") == "x"


def test_a_new_eager_server_starts_at_once(quiet: Box) -> None:
    quiet.up()
    quiet.fake("eager", start="eager")
    reload(quiet)
    wait_until(lambda: quiet.status("eager")["state"] == "ready", 20)


def test_sighup_reloads(quiet: Box) -> None:
    """
    B108.
    """
    quiet.fake().up()
    assert quiet.daemon
    quiet.fake("later").write()
    quiet.daemon.send_signal(signal.SIGHUP)
    wait_until(lambda: len(quiet.peer().request("mcpd/status")["servers"]) == 2)


def test_a_changed_file_is_told_as_an_event(box: Box) -> None:
    """
    B109: and touching it is no change.
    """
    box.fake().up()
    watcher = box.peer()
    watcher.request("mcpd/events", {})
    for _ in range(5):
        box.write()
    box.fake("later").write()
    event = watcher.take_notification("mcpd/event")
    assert (event["event"], event["added"]) == ("config.reloaded", ["later"])
    assert box.session("later").text("echo", text="x") == "x"


def test_the_order_of_entries_is_that_of_the_aggregate(quiet: Box) -> None:
    """
    B098.
    """
    quiet.fake("b", tools={"allow": ["echo"]}).fake("a", tools={"allow": ["echo"]}).up()
    session = quiet.session(None)
    assert names(session) == ["b__echo", "a__echo"]
    quiet.servers = {name: quiet.servers[name] for name in ("a", "b")}
    reload(quiet)
    wait_until(lambda: names(session) == ["a__echo", "b__echo"])


def test_a_daemon_that_is_not_to_watch_does_not(box: Box) -> None:
    """
    It watches before it has read that, so that no change is missed; then it stops.
    """
    box.settings["watch"] = False
    box.fake().up()
    assert box.daemon
    open_files = Path(f"/proc/{box.daemon.pid}/fd")

    def is_watching() -> bool:
        found = []
        for fd in os.listdir(open_files):
            with contextlib.suppress(FileNotFoundError):  # it was for a moment
                found.append(os.readlink(open_files / fd))
        assert found
        return "anon_inode:inotify" in found

    wait_until(lambda: not is_watching(), 5)
