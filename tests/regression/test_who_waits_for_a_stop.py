"""Starts and stops that cross each other: everybody who waits is answered."""

from __future__ import annotations

import pytest

from tests.support.daemon import Box, RpcError
from tests.support.waiting import wait_until

DEAF = ("--ignore-eof", "--ignore-term")


def stopping(box: Box) -> None:
    wait_until(lambda: box.status()["state"] == "stopping", what="the stop")


def test_a_call_that_came_during_an_idle_stop_hears_of_the_persons_stop(box: Box) -> None:
    """It waited for the start that would have followed."""
    box.fake("fake", *DEAF, stop_grace=0.5, idle_timeout=0.3).up()
    caller, person = box.peer(), box.peer()
    caller.request("mcpd/call", {"server": "fake", "tool": "pid"})
    stopping(box)
    ident = caller.start("mcpd/call", {"server": "fake", "tool": "pid"})
    wait_until(lambda: box.status()["in_flight"] == 1, what="the call")
    person.request("mcpd/stop", {"servers": ["fake"]})
    with pytest.raises(RpcError) as stopped:
        caller.finish(ident)
    assert stopped.value.kind == "server_stopped"


def test_a_restart_that_is_overtaken_by_a_stop_says_so(box: Box) -> None:
    box.fake("fake", *DEAF, stop_grace=0.4).up()
    one, other = box.peer(), box.peer()
    one.request("mcpd/start", {"servers": ["fake"]})
    ident = one.start("mcpd/restart", {"servers": ["fake"]})
    stopping(box)
    other.request("mcpd/stop", {"servers": ["fake"]})
    with pytest.raises(RpcError) as stopped:
        one.finish(ident)
    assert stopped.value.kind == "server_stopped"


def test_a_stop_that_is_followed_by_a_start_ends_with_the_old_process(box: Box) -> None:
    box.fake("fake", *DEAF, stop_grace=0.4).up()
    one, other = box.peer(), box.peer()
    one.request("mcpd/start", {"servers": ["fake"]})
    ident = one.start("mcpd/stop", {"servers": ["fake"]})
    stopping(box)
    other.request("mcpd/start", {"servers": ["fake"]})
    assert one.finish(ident)["servers"][0]["name"] == "fake"


def test_an_end_before_the_handshake_could_be_written_is_told_as_what_it_is(box: Box) -> None:
    """B035: exit status and stderr, whichever comes first, its end or our first line."""
    box.servers["fake"] = {
        "command": "/bin/sh",
        "args": ["-c", "exec <&-; echo usage >&2; sleep 0.2; exit 3"],
    }
    box.up()
    with pytest.raises(RpcError) as ended:
        box.peer().request("mcpd/call", {"server": "fake", "tool": "x"})
    assert ended.value.kind == "server_crashed"
    assert ended.value.data["exit_code"] == 3
    assert ended.value.data["stderr"] == ["usage"]
