"""Cases from the field: secrets that are shown."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.faults.ground import events, take_event
from tests.support.daemon import Box, RpcError, binary

SENTINELS = {
    "variable": "sentinel-of-a-variable-1",
    "literal": "sentinel-of-a-literal-22",
    "argument": "sentinel-of-an-argument-333",
    "header": "sentinel-of-a-header-4444",
    "url": "sentinel-of-a-url-55555",
}


def test_secrets_are_shown_nowhere(box: Box):
    """
    B139: values were in logs and on screens, whatever the log level said.
    """
    box.env["THE_TOKEN"] = SENTINELS["variable"]
    box.fake("fake", env={"A": "${THE_TOKEN}", "API_KEY": SENTINELS["literal"]})
    box.servers["noisy"] = {
        "command": "sh",
        "args": [
            "-c",
            'echo "$0 $@ $$A"; echo "$0 $@ $$A $$API_KEY" >&2; exit 3',
            "--api-key",
            SENTINELS["argument"],
            "--header",
            f"Authorization: Bearer {SENTINELS['header']}",
            f"https://example.org/mcp?token={SENTINELS['url']}",
        ],
        "env": box.servers["fake"]["env"],
        "restart": {"backoff": 0, "max_failures": 2},
    }
    box.servers["wrong"] = {"command": "x", "args": [f"--token={SENTINELS['argument']}", 5]}
    box.up("--log-level", "debug")
    shown = []
    with box.session("fake") as session:
        assert session.text("env", name="A") == SENTINELS["variable"]
        shown.append(str(session.call("env", name="HOME")))
        with pytest.raises(RpcError) as caught:
            session.call("crash")
        shown.append(str(caught.value.data))
    with box.peer() as watcher:
        for name in ("noisy", "wrong"):
            for method in ("mcpd/start", "mcpd/restart"):
                with pytest.raises(RpcError) as caught:
                    watcher.request(method, {"servers": [name]}, 20)
                shown.append(f"{caught.value} {caught.value.data}")
        for method in ("mcpd/status", "mcpd/list", "mcpd/reload"):
            shown.append(json.dumps(watcher.request(method)))
        for name in ("fake", "noisy", "wrong"):
            logged = watcher.request("mcpd/logs", {"server": name})
            shown.append(json.dumps(logged))
        shown.append(json.dumps(watcher.request("mcpd/logs")))
        events(watcher, "fake", "noisy", "wrong")
        take_event(watcher, "server.crashed")
        shown.append(json.dumps(watcher.inbox))
    for args in (("status",), ("list",), ("logs", "noisy"), ("--json", "list")):
        done = box.ctl(*args)
        shown.append(done.stdout + done.stderr)
    checked = subprocess.run(
        [binary("mcpd"), "--check"], env=box.env, capture_output=True, text=True, check=False
    )
    shown += [checked.stdout, checked.stderr, box.log.read_text()]
    assert sum("--header" in text for text in shown) > 2  # it has run, and was heard
    for folder, _, files in os.walk(box.state):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                shown.append(file.read().decode(errors="replace"))
    for what, sentinel in SENTINELS.items():
        assert not [text for text in shown if sentinel in text], what
