"""Memory: a server that takes more than it may is replaced when nobody needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ground import events, take_event
from tests.support.daemon import FAKE_SERVER, Box, is_alive
from tests.support.waiting import wait_until

LIMIT = 120 << 20
FEEDS = """
( while [ ! -e "$0" ]; do sleep 0.05; done; rm "$0"
  exec "$1" -c 'fat = b"x" * (200 << 20); import time; time.sleep(600)' ) &
exec "$@"
"""
"""A server with a child that grows when a file is there, and takes that away."""


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    try:
        fake = [sys.executable, "-I", "-S", str(FAKE_SERVER)]
        made.servers["grows"] = {
            "command": "sh",
            "args": ["-c", FEEDS, str(flag(made)), *fake],
            "memory_max": LIMIT,
        }
        yield made.up()
    finally:
        made.close()


def flag(box: Box) -> Path:
    return box.root / "grow"


@pytest.mark.slow
def test_a_server_that_grows_is_restarted_once_it_is_idle_and_sessions_go_on(box: Box):
    """
    One that leaks took all the memory there was, for weeks. Its whole tree counts; a call that is
    in flight is not lost for it, and it is no crash.
    """
    with box.session("grows") as session, box.peer() as hearer:
        events(hearer, "grows")
        pid = int(session.text("pid"))
        before = box.status("grows")
        call = session.start("tools/call", {"name": "hang"}, ident="long")
        flag(box).touch()
        told = take_event(hearer, "server.over_memory", 30)
        assert told["memory_bytes"] > told["limit_bytes"] == LIMIT
        assert told["then"] == "restarted when idle"
        during = box.status("grows")
        assert during["pid"] == pid, "a call is in flight"
        assert "memory_max" in during["last_error"]
        tree = during["pids"]
        session.notify("notifications/cancelled", {"requestId": call})
        assert "memory_max" in take_event(hearer, "server.stopping", 30)["reason"]
        take_event(hearer, "server.ready", 30)
        assert int(session.text("pid")) != pid
        after = box.status("grows")
        assert (after["restarts"], after["generation"]) == (0, before["generation"] + 1)
        assert after["sessions"] == 1
        assert not any(map(is_alive, tree))
    assert "server.over_memory server=grows" in box.tail()


@pytest.mark.slow
def test_an_idle_server_that_grows_is_restarted_with_nobody_there(box: Box):
    """
    Nobody need come for the memory to be free again.
    """
    with box.peer() as control:
        control.request("mcpd/start", {"servers": ["grows"]}, 20)
    pid = box.status("grows")["pid"]
    flag(box).touch()
    wait_until(lambda: box.status("grows")["pid"] not in (None, pid), 30)
    assert box.status("grows")["restarts"] == 0
