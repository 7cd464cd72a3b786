"""Sessions have the name that their client gives itself, and an aggregate says why it is empty."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.daemon import Box, Json, Peer

MODERN = "io.modelcontextprotocol/"
CLIENT = {"name": "claude-code", "version": "2.1.332"}


def legacy(peer: Peer) -> Json:
    asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
    found: Json = peer.request("initialize", asked, 30.0)
    peer.notify("notifications/initialized")
    return found


def modern(peer: Peer) -> Json:
    meta: dict[str, Any] = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT}
    meta["clientCapabilities"] = {}
    named = {f"{MODERN}{name}": value for name, value in meta.items()}
    found: Json = peer.request("server/discover", {"_meta": named}, 30.0)
    return found


@pytest.mark.parametrize("greet", [legacy, modern])
def test_a_session_has_its_clients_name_and_the_pid_of_the_bridge(box: Box, greet: Any) -> None:
    box.settings["log_level"] = "debug"
    box.fake().up()
    events = box.peer()
    events.request("mcpd/events")
    bridge = box.bridge("fake", handshake=False)
    greet(bridge)
    pid = box._started[-1].pid
    name = f"claude-code 2.1.332 (pid {pid})"
    named = events.take(
        lambda m: m.get("params", {}).get("event") == "session.named", 10.0, "the event"
    )
    assert named["params"]["client"] == name
    with box.peer() as peer:
        clients = peer.request("mcpd/status")["daemon"]["clients"]
        assert {each["client"] for each in clients} == {name}
        assert f'session.named session={clients[0]["session"]} server=fake client="{name}"' in (
            json.dumps(peer.request("mcpd/logs", {"lines": 100})).replace('\\"', '"')
        )
    bridge.send_raw(b'{"jsonrpc":"2.0","id":7,"method":5}\n')
    rejected = bridge.take(lambda m: "error" in m, 10.0, "the error")
    assert rejected["error"]["code"] == -32600
    assert f'client="{name}" reason=' in box.tail()


@pytest.mark.parametrize("greet", [legacy, modern])
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (None, "no server is configured"),
        ({"command": "x", "disabled": True}, "its only server is disabled"),
        ({"command": "x", "env": 5}, "none of the servers can be used"),
    ],
)
def test_an_aggregate_without_servers_says_why(
    box: Box, entry: Json | None, why: str, greet: Any
) -> None:
    if entry is not None:
        box.servers["one"] = entry
    box.up()
    bridge = box.bridge(handshake=False)
    said = greet(bridge)["instructions"]
    assert why in said and f"read: {box.config}" in said and "mcpctl " in said


def test_the_bridge_says_so_too_and_the_doctor(box: Box) -> None:
    box.servers["one"] = {"command": "x", "disabled": True}
    box.up()
    done = box.ctl("connect", stdin="")
    assert (
        f"mcpctl: mcpd has no tools to offer: its only server is disabled (read: {box.config})"
        in done.stderr
    )
    assert str(box.config) in box.ctl("doctor").stdout


def test_it_says_nothing_where_there_is_one(box: Box) -> None:
    box.fake().up()
    bridge = box.bridge(handshake=False)
    assert "no tools to offer" not in legacy(bridge).get("instructions", "")
    assert box.ctl("connect", stdin="").stderr == ""


def test_a_daemon_without_any_file_says_where_it_looked(box: Box) -> None:
    del box.env["MCPD_CONFIG"]
    box.up()
    with box.session(None, handshake=False) as peer:
        said = legacy(peer)["instructions"]
    assert "there is none of /etc/mcpd/mcp.json" in said
    assert f"{box.env['XDG_CONFIG_HOME']}/mcpd/config.toml" in said
