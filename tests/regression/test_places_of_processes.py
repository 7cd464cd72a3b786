"""A new process never starts beside the old tree, however its entry changes meanwhile."""

from __future__ import annotations

import signal
from typing import Any

from tests.support.daemon import Box, Peer, is_alive
from tests.support.waiting import wait_until

DEAF = ("--ignore-eof", "--ignore-term")
GRACE = 0.4


def with_value(box: Box, control: Peer, entry: dict[str, Any], value: str | None) -> None:
    """Give the server another variable, or none, and have that applied."""
    box.servers["fake"] = entry if value is None else {**entry, "env": {"VALUE": value}}
    box.write()
    control.request("mcpd/reload")


def living(box: Box) -> list[int]:
    return [pid for pid in box.pids() if is_alive(pid)]


def test_an_entry_that_is_changed_back_while_its_process_ends_gets_one_process(box: Box) -> None:
    """B011: the place that is being left and the new one have the same name."""
    box.settings = {"watch": False}
    box.fake("fake", *DEAF, stop_grace=GRACE).up()
    session, control = box.session(), box.peer()
    first = int(session.text("pid"))
    entry = box.servers["fake"]
    with_value(box, control, entry, "1")
    with_value(box, control, entry, None)
    assert is_alive(first)
    second = int(session.text("pid"))
    assert living(box) == [second]
    status = box.status()
    assert (status["state"], status["pids"]) == ("ready", [second])
    assert box.down() == 0
    assert box.survivors() == {}


def test_the_next_process_waits_for_the_old_tree_without_any_session(box: Box) -> None:
    box.settings = {"watch": False}
    box.fake("fake", *DEAF, stop_grace=GRACE).up()
    control = box.peer()
    control.request("mcpd/call", {"server": "fake", "tool": "pid"})
    with_value(box, control, box.servers["fake"], "1")
    control.request("mcpd/call", {"server": "fake", "tool": "pid"})
    assert len(living(box)) == 1


def test_an_entry_that_is_changed_twice_waits_for_the_first_process(box: Box) -> None:
    box.settings = {"watch": False}
    box.fake("fake", *DEAF, stop_grace=GRACE).up()
    session, control = box.session(), box.peer()
    session.text("pid")
    entry = box.servers["fake"]
    with_value(box, control, entry, "1")
    with_value(box, control, entry, "2")
    assert session.text("env", name="VALUE") == "2"
    assert len(living(box)) == 1


def test_a_call_in_flight_keeps_the_next_process_waiting_too(box: Box) -> None:
    """The place is not given up yet: a control call of the new entry comes in between."""
    box.settings = {"watch": False}
    box.fake(stop_grace=20).up()
    caller, control = box.peer(), box.peer()
    ident = caller.start("mcpd/call", {"server": "fake", "tool": "sleep", "arguments": {"ms": 400}})
    wait_until(lambda: box.messages(method="tools/call"), what="the call")
    with_value(box, control, box.servers["fake"], "1")
    control.request("mcpd/call", {"server": "fake", "tool": "pid"})
    assert len(living(box)) == 1
    assert caller.finish(ident)["content"][0]["text"] == "slept 400"


def test_nothing_is_started_while_the_daemon_ends(box: Box) -> None:
    box.fake("slow", *DEAF, stop_grace=1).fake().up()
    control, other = box.peer(), box.peer()
    control.request("mcpd/start", {"servers": ["slow"]})
    other.request("mcpd/hello")
    assert box.daemon
    box.daemon.send_signal(signal.SIGTERM)
    wait_until(
        lambda: (
            control.request("mcpd/status", {"servers": ["slow"]})["servers"][0]["state"]
            == "stopping"
        ),
        what="the drain",
    )
    for method, name in (("mcpd/start", "fake"), ("mcpd/restart", "slow")):
        ident = other.start(method, {"servers": [name]})
        answer = other.take(lambda m, i=ident: m.get("id") == i)
        assert answer["error"]["data"]["kind"] == "draining"
    assert box.daemon.wait(20) == 0
    assert box.pids() == []
    assert box.survivors() == {}


def test_what_waits_for_a_place_to_be_left_starts_when_that_stays(box: Box) -> None:
    """A twin of the new entry waits for the old process, and the old entry comes back."""
    box.settings = {"watch": False}
    box.fake(stop_grace=30).up()
    old = box.servers["fake"]
    new = {**old, "env": {"VALUE": "1"}}
    session, control, other = box.session(), box.peer(), box.peer()
    held = session.start("tools/call", {"name": "hang"})
    wait_until(lambda: box.messages(method="tools/call"), what="the call")
    box.servers = {"fake": new, "twin": new}
    box.write()
    control.request("mcpd/reload")
    ident = other.start("mcpd/call", {"server": "twin", "tool": "pid"})
    wait_until(lambda: box.status("twin")["state"] == "starting", what="the twin")
    box.servers = {"fake": old, "twin": new}
    box.write()
    control.request("mcpd/reload")
    assert other.finish(ident)["content"]
    session.notify("notifications/cancelled", {"requestId": held})
    assert len(living(box)) == 2
