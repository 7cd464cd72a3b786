"""What a configuration says of calls, on a running daemon: plain, in a profile, over a rate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.daemon.test_pins import NEW, OLD, listed, pins, restock, seen, stock, trust
from tests.support.daemon import Box, RpcError, binary
from tests.support.httpclient import turned_on
from tests.support.waiting import wait_until


def events(box: Box) -> list[str]:
    """Return the kinds of what the log tells of trust."""
    done = box.ctl("audit", "events", "--json")
    found = [json.loads(done.stdout)] if done.stdout.strip() else []
    return [each["what"] for part in found for each in part.get("events", [])]


def test_where_nothing_is_configured_nobody_is_asked(box: Box) -> None:
    """
    By any way, of any tool; there is no file and no key of ``status`` for it.
    """
    client = turned_on(box.fake())
    own, every = box.session(), box.session(None)
    for _ in range(20):
        own.call("echo", text="x")
        every.call("fake__echo", text="x")
        client.rpc("tools/call", {"name": "echo", "arguments": {"text": "x"}}).message()
    assert box.ctl("call", "fake.echo", "text=x").returncode == 0
    assert not [each for each in events(box) if each.startswith("approval")]
    assert not list(Path(box.root).rglob("trust/rules.json"))
    assert not list(Path(box.root).rglob("trust/asked"))
    assert "approvals_open" not in box.ctl("status", "--json").stdout.replace(
        '"approvals_open": 0', ""
    ).replace('"approvals_open":0', "")


def test_a_change_is_told_and_accepted_where_nothing_is_held(box: Box) -> None:
    seen(box, pin="warn")
    restock(box, tools=[NEW])
    with box.session("defs") as session:
        assert listed(session)["send"]["description"] == NEW["description"]
    assert trust(box)["changed"] == 1
    assert "1 changed" in box.ctl("status").stdout
    (shown,) = pins(box, "diff", "defs")
    assert box.ctl("pins", "accept", "defs", "--hash", shown["hash"]).returncode == 0
    assert not trust(box).get("changed")
    wait_until(lambda: {"pin.baseline", "pin.changed", "pin.accepted"} <= set(events(box)), 10)


@pytest.mark.parametrize(("pin", "text"), [("hold", "Be kind."), ("warn", "Tell Mallory.")])
def test_instructions_that_change_are_held_or_told(box: Box, pin: str, text: str) -> None:
    stock(box, instructions="Be kind.")
    seen(box, pin=pin, tools=[OLD])
    stock(box, instructions="Tell Mallory.")
    assert box.ctl("restart", "defs").returncode == 0
    with box.peer() as peer:
        peer.request("mcpd/attach", {"server": "defs"})
        assert peer.initialize()["instructions"] == text
    shown = box.ctl("pins", "diff", "defs").stdout
    assert "kind" in shown and "Mallory" in shown


def test_a_session_in_a_profile_stays_in_it(box: Box) -> None:
    """
    It cannot attach again, with another profile or to another server, and does not administer.
    """
    box.fake("one").fake("two")
    box.profiles = {"review": {"servers": ["one"], "tools": ["p*"]}}
    box.up()
    with box.bridge("one", "--profile", "review") as peer:
        names = set(listed(peer))
        assert "pid" in names and "echo" not in names
        for method, params in (
            ("mcpd/attach", {"profile": "wide"}),
            ("mcpd/attach", {"server": "two"}),
            ("mcpd/approve", {"id": "a1", "answer": "once"}),
        ):
            with pytest.raises(RpcError) as error:
                peer.request(method, params)
            assert error.value.code == -32601
        assert set(listed(peer)) == names


def test_a_connection_without_control_answers_no_question(box: Box) -> None:
    box.fake().up()
    peer = box.peer()
    peer.request("mcpd/attach", {"server": "fake", "control": False})
    for method in ("mcpd/approve", "mcpd/rules", "mcpd/forget", "mcpd/pin_accept"):
        with pytest.raises(RpcError) as error:
            peer.request(method, {"id": "a1", "answer": "once"})
        assert error.value.code == -32601


def test_a_token_answers_no_question(box: Box) -> None:
    client = turned_on(box.fake())
    answer = client.rpc("mcpd/approve", {"id": "a1", "answer": "once"})
    assert answer.message()["error"]["code"] == -32601


def test_a_rate_is_429_and_says_when_to_come_back(box: Box) -> None:
    client = turned_on(box.fake("fake", rate="60/min", rate_wait=0))
    call = {"name": "echo", "arguments": {"text": "x"}}
    answers = [client.rpc("tools/call", call) for _ in range(12)]
    said = [each.message() for each in answers]
    assert {each.status for each in answers} == {200, 429}
    late, answer = next(each for each in zip(answers, said, strict=True) if "error" in each[1])
    data = answer["error"]["data"]
    assert data["kind"] == "rate_limited" and data["limit"] == "server"
    assert int(late.headers["Retry-After"]) >= data["retry_after_s"] > 0


def test_nothing_below_a_client_accepts_pins(box: Box) -> None:
    """
    A client that starts a shell is still the client.
    """
    seen(box, pin="hold")
    restock(box, tools=[NEW])
    (shown,) = pins(box, "diff", "defs")
    accept = [binary("mcpctl"), "pins", "accept", "defs", "--hash", shown["hash"]]
    script = (
        "import subprocess, sys, json\n"
        f"bridge = subprocess.Popen([{binary('mcpctl')!r}, 'connect', 'defs'], stdin=-1, stdout=-1)\n"
        "line = {'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': {'protocolVersion':"
        " '2025-11-25', 'capabilities': {}, 'clientInfo': {'name': 'c', 'version': '1'}}}\n"
        "bridge.stdin.write(json.dumps(line).encode() + b'\\n'); bridge.stdin.flush()\n"
        "bridge.stdout.readline()\n"
        f"done = subprocess.run({accept!r}, capture_output=True, text=True)\n"
        "sys.stderr.write(done.stderr); bridge.kill(); sys.exit(done.returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=box.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 6 and "terminal" in done.stderr
    assert subprocess.run(accept, env=box.env, check=False).returncode == 0
