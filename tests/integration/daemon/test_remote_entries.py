"""Entries with a URL under a running daemon that has not connected to any."""

from __future__ import annotations

import json
from typing import Any

from tests.support.daemon import Box

FAR = "https://x.invalid/mcp"
SECRET = "SENTINEL-of-somebody"


def said_by(box: Box, *commands: tuple[str, ...]) -> str:
    done = [box.ctl(*command) for command in commands]
    return "".join(each.stdout + each.stderr for each in done)


def test_a_remote_server_is_shown_before_its_first_use(box: Box) -> None:
    box.servers["far"] = {
        "url": f"{FAR}?api_key={SECRET}",
        "headers": {"X-Api-Key": SECRET, "X-Team": "blue"},
        "auth": {"type": "bearer", "token": SECRET},
    }
    box.up()
    status = box.status("far")
    assert (status["state"], status["transport"], status["sharing"]) == (
        "stopped",
        "http",
        "shared",
    )
    assert (status["pid"], status["pids"], status["rss_bytes"]) == (None, [], None)
    assert (status["url"], status["auth"], status["latency_ms"]) == (FAR, "bearer", None)
    [entry] = box.peer().request("mcpd/list")["servers"]
    assert entry["config"]["url"] == f"{FAR}?api_key=***"
    assert entry["config"]["headers"] == {"X-Api-Key": "***", "X-Team": "blue"}
    assert entry["config"]["auth"] == {"type": "bearer", "token": "***"}
    assert "command" not in entry["config"]
    shown = said_by(
        box,
        ("list",),
        ("list", "--json"),
        ("status",),
        ("status", "far"),
        ("status", "--json"),
        ("doctor",),
        ("logs",),
    )
    assert SECRET not in shown
    assert f"{FAR}?api_key=***" in said_by(box, ("list",))
    assert f"far: at {FAR} (http), auth bearer" in said_by(box, ("status", "far"))


def test_a_bad_remote_entry_is_an_error_of_itself_alone(box: Box) -> None:
    box.fake("near")
    bad: dict[str, Any] = {
        "plain": {"url": "http://x.invalid/mcp"},
        "both": {"url": FAR, "command": "x"},
        "unset": {"url": FAR, "headers": {"X-A": "${NOT_SET_ANYWHERE}"}},
    }
    box.servers |= bad
    box.up()
    assert box.session("near").text("echo", text="x") == "x"
    for name in bad:
        status = box.status(name)
        assert status["state"] == "misconfigured"
        assert f"mcpServers.{name}." in status["last_error"]
        assert box.ctl("call", name, "echo", "text=x").returncode == 4
    found = json.loads(box.ctl("doctor", "--json").stdout)
    assert {one.get("server") for one in found["findings"] if one["id"] == "config_error"} == {*bad}


def test_a_reload_with_a_bad_remote_entry_keeps_the_last_good_one(box: Box) -> None:
    box.settings["watch"] = False
    box.servers["far"] = {"url": FAR}
    box.up()
    box.servers["far"] = {"url": FAR, "auth": {"type": "bearer"}}
    told = box.write().peer().request("mcpd/reload", timeout=30.0)
    assert [each for each in told["errors"] if "far.auth: token is missing" in each]
    status = box.status("far")
    assert status["state"] == "stopped"
    assert "token is missing" in status["last_error"]
