"""How a real daemon finds out which era a real server speaks, and what that costs."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcpd.upstreams.stdio.ends import TELLS_UNREAD
from tests.support.daemon import Box, Json, Peer, RpcError, is_alive
from tests.support.waiting import scaled, wait_until

PROGRAM = Path(__file__).parents[2] / "support" / "eraserver.py"
MODERN = "2026-07-28"


class Scripted:
    """A server whose processes do what a script says of each of them."""

    def __init__(self, box: Box, *script: Json, **entry: Any) -> None:
        self.home = box.root / "era"
        self.home.mkdir()
        for name in ("pids", "others", "read"):
            (self.home / name).touch()
        self.play(*script)
        self.program = self.home / "program"
        self.program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n')
        self.program.chmod(0o700)
        launch = {"command": str(self.program), "args": [str(self.home)]}
        box.servers["fake"] = {**launch, **entry}
        self.box = box

    def play(self, *script: Json) -> None:
        """Have the processes do this, counted from the first of all."""
        (self.home / "script.json").write_text(json.dumps(script))

    def _lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in (self.home / name).read_text().splitlines()]

    @property
    def pids(self) -> list[int]:
        """Return the pid of every process, descendants included, in order."""
        return self._lines("pids")

    @property
    def asked(self) -> list[str]:
        """Return the methods of all that its processes have read, in order."""
        return [message["method"] for message in self._lines("read") if "id" in message]

    @property
    def openings(self) -> list[str]:
        """Return how each process was greeted."""
        return [m for m in self.asked if m in ("initialize", "server/discover")]

    @property
    def read_at(self) -> list[float]:
        """Return when each message was read."""
        return [message["at"] for message in self._lines("read")]

    @property
    def were_alone(self) -> bool:
        """Whether no process ever saw an earlier one alive."""
        return not any(self._lines("others"))


def pid_of(box: Box) -> int:
    asked = {"server": "fake", "tool": "pid"}
    result = box.peer().request("mcpd/call", asked, 40.0)
    return int(result["content"][0]["text"])


def watch(box: Box) -> Peer:
    watcher = box.peer()
    watcher.request("mcpd/events", {"since": 0})
    return watcher


def told(watcher: Peer, last: str) -> list[Json]:
    """Return the events up to the first of that name, it included."""
    found: list[Json] = []
    while not found or found[-1]["event"] != last:
        found.append(watcher.take_notification("mcpd/event", 30.0))
    return found


def test_a_death_by_the_probe_costs_nothing_but_a_process(box: Box) -> None:
    """
    B079: Python SDK servers up to 1.8.1 do that: no backoff, no crash, nothing in the status.
    """
    server = Scripted(box, {"probe": "die"}, {})
    box.up()
    watcher = watch(box)
    began = time.monotonic()
    assert pid_of(box) == server.pids[-1]
    assert time.monotonic() - began < scaled(3)
    assert server.openings == ["server/discover", "initialize"]
    names = [event["event"] for event in told(watcher, "server.ready")]
    assert names.count("server.starting") == 2
    assert not {"server.crashed", "server.backoff"} & set(names)
    status = box.status()
    assert (status["restarts"], status["last_error"], status["generation"]) == (0, None, 2)
    assert (status["era"], status["protocol_version"]) == ("legacy", "2025-11-25")


def test_nothing_of_a_tree_that_the_probe_killed_is_left(box: Box) -> None:
    """
    A new process never starts while the old tree is alive.
    """
    server = Scripted(box, {"probe": "die", "child": True}, {"child": True})
    box.up()
    pid = pid_of(box)
    first, orphan, second, child = server.pids
    assert pid == second
    assert server.were_alone
    assert [is_alive(each) for each in (first, orphan, second, child)] == [False, False, True, True]


def test_silence_is_counted_from_when_the_probe_was_read(box: Box) -> None:
    server = Scripted(box, {"probe": "silent"}, {})
    box.up()
    began = time.monotonic()
    assert pid_of(box) == server.pids[-1]
    took = time.monotonic() - began
    assert 3.0 <= took < scaled(8)
    assert server.read_at[1] - server.read_at[0] >= 3.0
    assert server.openings == ["server/discover", "initialize"]
    assert server.were_alone
    assert box.status()["last_error"] is None


@pytest.mark.skipif(not TELLS_UNREAD, reason="the pipe does not tell what is in it")
def test_a_cold_start_is_not_silence(box: Box) -> None:
    """
    What has not been read cannot be answered: a healthy server is not killed for being slow.
    """
    server = Scripted(box, {"era": "modern", "delay": 3.5})
    box.up()
    assert pid_of(box) == server.pids[0]
    assert len(server.pids) == 1
    assert box.status()["era"] == "modern"
    assert server.openings == ["server/discover"]


def test_a_process_that_has_said_something_is_taken_to_be_up(box: Box) -> None:
    server = Scripted(box, {"delay": 60, "says": "hello"}, {})
    box.up()
    began = time.monotonic()
    assert pid_of(box) == server.pids[-1]
    assert 3.0 <= time.monotonic() - began < scaled(8)
    assert server.openings == ["initialize"]


def test_half_of_the_start_up_time_is_all_that_a_probe_gets(box: Box) -> None:
    """
    And all processes of a start together get its time, once.
    """
    once = {"policy": "never"}
    server = Scripted(box, {"delay": 60}, startup_timeout=2, stop_grace=0.2, restart=once)
    box.up()
    began = time.monotonic()
    with pytest.raises(RpcError) as error:
        pid_of(box)
    assert 2.0 <= time.monotonic() - began < scaled(3.5)
    assert error.value.kind == "startup_timeout"
    assert len(server.pids) == 2
    wait_until(lambda: not any(map(is_alive, server.pids)))


def test_the_log_says_why_there_was_another_process(box: Box) -> None:
    Scripted(box, {"probe": "die"}, {})
    box.up()
    pid_of(box)
    lines = box.peer().request("mcpd/logs", {"server": "fake", "lines": 50})["lines"]
    said = [line["text"] for line in lines if line["source"] == "mcpd"]
    assert any("exited with status 3" in text and "started again" in text for text in said)


def test_what_was_found_out_outlives_the_daemon(box: Box) -> None:
    server = Scripted(box, {"probe": "die"}, {})
    box.up()
    pid_of(box)
    assert box.down() == 0
    box.up()
    pid_of(box)
    assert server.openings == ["server/discover", "initialize", "initialize"]


def test_another_program_is_asked_anew(box: Box) -> None:
    """
    Its file was written since: an upgrade, of which nothing is known.
    """
    server = Scripted(box, {})
    box.up()
    pid_of(box)
    assert box.down() == 0
    os.utime(server.program)
    server.play({"era": "modern"})
    box.up()
    pid_of(box)
    assert server.openings == ["server/discover", "initialize", "server/discover"]
    assert len(server.pids) == 2


def test_an_upgrade_that_no_file_shows_is_found_out_in_the_same_start(box: Box) -> None:
    """
    For ``npx`` and ``python x.py`` that is the normal case.
    """
    server = Scripted(box, {})
    box.up()
    pid_of(box)
    server.play({"era": "modern"})
    watcher = watch(box)
    box.peer().request("mcpd/restart", {"servers": ["fake"]}, 30.0)
    assert len(server.pids) == 3
    assert server.were_alone
    assert box.status()["era"] == "modern"
    status = box.status()
    assert (status["restarts"], status["last_error"]) == (0, None)
    ready = [told(watcher, "server.ready")[-1] for _ in range(2)]
    assert [event["era"] for event in ready] == ["legacy", "modern"]
    assert ready[-1]["protocol_version"] == MODERN


def test_a_crash_at_the_first_start_is_a_crash_once(box: Box) -> None:
    """
    The first death may have been the probe's doing, the second was not; the era is not known.
    """
    server = Scripted(box, {"probe": "die"}, {"era": "mute"}, restart={"policy": "never"})
    box.up()
    watcher = watch(box)
    with pytest.raises(RpcError) as error:
        pid_of(box)
    assert error.value.kind == "handshake_failed"
    names = [event["event"] for event in told(watcher, "server.stopped")]
    assert names.count("server.crashed") == 1
    server.play({"era": "modern"})
    assert pid_of(box) == server.pids[-1]
    assert len(server.pids) == 3


def test_a_stop_in_the_middle_of_it_is_a_stop(box: Box) -> None:
    server = Scripted(box, {"probe": "silent"})
    box.up()
    waiting = box.peer()
    asked = waiting.start("mcpd/call", {"server": "fake", "tool": "pid"})
    wait_until(lambda: server.openings)
    box.peer().request("mcpd/stop", {"servers": ["fake"]}, 30.0)
    with pytest.raises(RpcError) as error:
        waiting.finish(asked)
    assert error.value.kind == "server_stopped"
    assert len(server.pids) == 1
    assert not is_alive(server.pids[0])
    assert box.status()["state"] == "stopped"


def test_as_many_starts_as_may_be_are_as_many_processes(box: Box) -> None:
    """
    The second process of a start takes no other's turn, and waits for none.
    """
    box.settings["max_concurrent_starts"] = 1
    server = Scripted(box, {"probe": "die"}, {}, start="eager")
    box.fake("other", start="eager")
    box.up()
    wait_until(lambda: box.status()["state"] == "ready", 20)
    wait_until(lambda: box.status("other")["state"] == "ready", 20)
    names = [(e["event"], e["server"]) for e in told(watch(box), "server.ready")]
    assert names[:2] == [("server.starting", "fake"), ("server.starting", "fake")]
    assert len(server.pids) == 2


def test_a_listen_ends_with_a_result_when_the_daemon_does(box: Box) -> None:
    """
    And with nothing else: whatever becomes of the server, a client's listen is ours.
    """
    Scripted(box, {"era": "modern"})
    box.up()
    session = box.session(handshake=False)
    key = "io.modelcontextprotocol/"
    envelope = {key + "protocolVersion": MODERN, key + "clientCapabilities": {}}
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": envelope}
    listen = session.start("subscriptions/listen", wanted, ident="mine")
    told_it = session.take_notification("notifications/subscriptions/acknowledged", 30.0)
    assert told_it["_meta"][key + "subscriptionId"] == "mine"
    pid = pid_of(box)
    box.peer().request("mcpd/restart", {"servers": ["fake"]}, 30.0)
    assert not is_alive(pid)
    assert box.down() == 0
    ended = session.finish(listen)
    assert ended["resultType"] == "complete"
    assert ended["_meta"][key + "subscriptionId"] == "mine"
