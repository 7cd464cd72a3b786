"""Cases from the field: secrets that are shown."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.faults.ground import events, take_event
from tests.support.daemon import Box, RpcError, binary
from tests.support.waiting import wait_until

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


def test_keys_are_read_from_a_file_of_their_own_and_kept_nowhere_else(box: Box):
    """
    B142: keys do not have to be in the configuration. The file is private, and read when it changes.
    """
    file = box.root / "srv.env"
    file.write_text("# keys\nexport TOKEN='sentinel of a file'\nBOTH=file\n")
    file.chmod(0o644)
    box.fake("fake", env_file="srv.env", env={"BOTH": "entry"})
    box.fake("other")
    box.up("--log-level", "debug")

    def error() -> str:
        return box.status("fake")["last_error"] or ""

    assert f"chmod go= {file}" in error()
    file.chmod(0o600)
    wait_until(lambda: box.status("fake")["state"] == "stopped")
    with box.session("fake") as session, box.session("other") as other:
        assert session.text("env", name="TOKEN") == "sentinel of a file"
        assert session.text("env", name="BOTH") == "entry"
        pids = session.text("pid"), other.text("pid")
        file.write_text("TOKEN=sentinel-of-another\n")
        wait_until(lambda: session.text("env", name="TOKEN") == "sentinel-of-another", 20)
        assert session.text("pid") != pids[0]
        assert other.text("pid") == pids[1]
        file.write_text("TOKEN=sentinel-of-another\nsentinel-of-a-slip\n")
        wait_until(error, 20)
        assert f"{file}:2: expected KEY=VALUE" in error()
        assert session.text("env", name="TOKEN") == "sentinel-of-another"
        shown = [error(), box.ctl("--json", "list").stdout, box.log.read_text()]
    for folder, _, files in os.walk(box.state):
        for name in files:
            with open(os.path.join(folder, name), "rb") as written:
                shown.append(written.read().decode(errors="replace"))
    assert not [text for text in shown if "sentinel" in text]
