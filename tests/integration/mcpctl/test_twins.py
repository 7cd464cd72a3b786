"""Two names for one process, as ``mcpctl`` and the socket tell of them."""

from __future__ import annotations

import json

from tests.support.daemon import Box, is_alive


def with_twins(box: Box) -> int:
    """Run ``a`` and ``b``, which are the same but for their names, and return the pid."""
    box.fake("a").fake("other")
    box.servers["b"] = dict(box.servers["a"])
    box.up()
    pid: int = json.loads(box.ctl("start", "a", "b", "--json").stdout)["servers"][0]["pid"]
    return pid


def test_a_stop_says_for_whom_the_process_goes_on(box: Box) -> None:
    pid = with_twins(box)
    first = box.ctl("stop", "a")
    assert [line.split() for line in first.stdout.splitlines()] == [
        ["SERVER", "STATE", "PID"],
        ["a", "stopped", "-"],
        ["a:", "its", "process", "goes", "on", "for", "b"],
    ]
    assert is_alive(pid)
    assert box.status("b")["pid"] == pid
    again = json.loads(box.ctl("stop", "a", "--json").stdout)
    told = {"name": "a", "state": "stopped", "pid": None, "goes_on_for": ["b"]}
    assert again == {"servers": [told]}
    last = json.loads(box.ctl("stop", "b", "--json").stdout)
    assert last == {"servers": [{"name": "b", "state": "stopped", "pid": None, "step": "eof"}]}
    assert not is_alive(pid)


def test_the_events_of_a_process_reach_those_who_follow_any_of_its_names(box: Box) -> None:
    with_twins(box)
    follower = box.peer()
    asked = follower.start("mcpd/events", {"servers": ["b"], "since": 0})
    follower.finish(asked)
    box.session("a").close()
    box.ctl("restart", "other", "b")
    told = []
    while not told or told[-1]["event"] != "server.ready" or told[-1]["generation"] < 2:
        told.append(follower.take_notification("mcpd/event"))
    assert {event.get("server") for event in told} <= {"a", None}
    names = [event["event"] for event in told]
    assert "session.opened" not in names
    assert [name for name in names if name != "server.catalog_changed"] == [
        *("server.starting", "server.ready", "server.stopping", "server.stopped"),
        *("server.starting", "server.ready"),
    ]
