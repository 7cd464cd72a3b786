"""What sessions and errors say and do once an entry is another one, or has a twin."""

from __future__ import annotations

import pytest

from tests.support.daemon import Box, RpcError, is_alive
from tests.support.waiting import wait_until


def test_sessions_move_to_one_process_when_a_server_becomes_shared(box: Box) -> None:
    """Only the launch counted: they kept those of their own."""
    box.settings = {"watch": False}
    box.fake(sharing="session").up()
    one, other = box.session(), box.session()
    assert one.text("pid") != other.text("pid")
    box.servers["fake"]["sharing"] = "shared"
    box.write()
    box.peer().request("mcpd/reload")
    assert one.text("pid") == other.text("pid")
    wait_until(lambda: sum(map(is_alive, box.pids())) == 1, what="one process")
    box.servers["fake"]["sharing"] = "session"
    box.write()
    box.peer().request("mcpd/reload")
    assert one.text("pid") != other.text("pid")
    wait_until(lambda: sum(map(is_alive, box.pids())) == 2, what="two processes")


def test_an_error_names_the_entry_that_was_asked_and_not_its_twin(box: Box) -> None:
    box.fake("one")
    box.servers["two"] = {**box.servers["one"], "call_timeout": 0.2}
    box.up()
    one, two = box.session("one"), box.session("two")
    assert one.text("pid") == two.text("pid")
    with pytest.raises(RpcError) as late:
        two.call("hang")
    assert late.value.data["server"] == "two"
    assert late.value.message.startswith("two.hang:")


def test_a_call_that_waited_for_a_start_in_vain_has_no_unknown_outcome(box: Box) -> None:
    """Nothing of it was written."""
    box.fake("slow", "--start-delay", "30", stop_grace=0.1).fake("fast").up()
    outcomes = {}
    for name, tool in (("slow", "pid"), ("fast", "hang")):
        with pytest.raises(RpcError) as late:
            box.peer().request("mcpd/call", {"server": name, "tool": tool, "timeout": 0.5})
        assert late.value.kind == "call_timeout"
        outcomes[name] = late.value.data["outcome_unknown"]
    assert outcomes == {"slow": False, "fast": True}


def test_secrets_are_masked_in_last_error_and_in_errors(box: Box) -> None:
    """B139: what a server says in its handshake, and a path that holds a variable."""
    secret = "sentinel-0123456789"
    refuse = """
import json, os, sys
asked = json.loads(sys.stdin.readline())
error = {"code": -1, "message": "bad key " + os.environ["API_KEY"]}
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""
    box.env["HIDDEN"] = secret
    box.fake()
    python = box.servers.pop("fake")["command"]
    box.servers["refuses"] = {"command": python, "args": ["-c", refuse], "env": {"API_KEY": secret}}
    box.servers["nowhere"] = {"command": "/nowhere/${HIDDEN}/x"}
    box.up()
    for name, kind in (("refuses", "handshake_failed"), ("nowhere", "spawn_failed")):
        with pytest.raises(RpcError) as failed:
            box.peer().request("mcpd/call", {"server": name, "tool": "x"})
        assert failed.value.kind == kind
        assert secret not in str(failed.value)
        assert "***" in box.status(name)["last_error"]
        assert secret not in str(box.status(name))
