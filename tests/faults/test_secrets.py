"""Cases from the field: secrets that are shown."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ground import events, take_event
from tests.support.daemon import Box, RpcError, binary
from tests.support.secret_forms import forms
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


ODD = [
    "Zqj1-Wx2/Vy3+Ut4-jqZ",
    'Zqj1"Wx2\'Vy3"jqZ',
    "Zqj1\\Wx2\\\\Vy3\\njqZ",
    "Zqj1Wx2Vy3jqZ\nZqj4Wx5Vy6jqZ",
    "Zqj1\tWx2 Vy3\x1bjqZ",
    "Zqj1äWx2ßVy3€🔑jqZ",
    b"Zqj1\xff\xfeWx2\xe2\x82Vy3jqZ".decode(errors="surrogateescape"),
    "Zqj1%41+Wx2/Vy3==jqZ",
    "Zqj7Wx8jqZ",
    "Zqj7Wx8jqZ-and-more-jqZ",
    "Zqj8Wx9Vy0UtjqZ",
    "UtjqZqj2Wx3jqZ",
    "Zqj1***Wx4***jqZ",
    "<Zqj5&Wx6>jqZ",
]
"""Secrets with all that is written in more than one way, and such as overlap or begin alike.

Each of their lines begins with ``Zqj`` or ends in ``jqZ``, which nothing else does.
"""

LEAKY = Path(__file__).with_name("leakyserver.py")


@contextlib.contextmanager
def told_manager(box: Box) -> Iterator[socket.socket]:
    """Give what a service manager has been told, as datagrams."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = box.root / "notify"
        manager.bind(str(path))
        manager.setblocking(False)
        box.env["NOTIFY_SOCKET"] = str(path)
        yield manager


def written(box: Box) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every file that a daemon has written."""
    yield "daemon log", box.log.read_bytes().decode(errors="surrogateescape")
    for folder, _, files in os.walk(box.state):
        for name in files:
            path = Path(folder, name)
            yield str(path), path.read_bytes().decode(errors="surrogateescape")


def leaks(shown: dict[str, str], secrets: list[str]) -> list[tuple[str, str]]:
    """Return where some form of a secret, or the beginning or end of one, stands."""
    needles = {form for secret in secrets for form in forms(secret)} | {"Zqj", "jqZ"}
    return [
        (where, text[max(0, text.index(each) - 40) :][:120])
        for where, text in shown.items()
        for each in needles
        if each in text
    ]


@pytest.mark.slow
def test_odd_secrets_are_shown_nowhere_in_any_form(box: Box):
    """
    B139: a quote or a backslash was enough, or a line that was cut where the secret stood.
    """
    env = {f"SENTINEL_{number:02}": f"${{ODD_{number:02}}}" for number in range(len(ODD))}
    box.env |= {f"ODD_{number:02}": secret for number, secret in enumerate(ODD)}
    restart = {"backoff": 0, "max_failures": 2}
    for mode in ("serve", "refuse", "die"):
        args = [str(LEAKY), f"--pat={ODD[0]}", "--dsn", f"postgres://u:{ODD[8]}@h/db", mode]
        entry = {"command": sys.executable, "args": args, "env": env, "restart": restart}
        box.servers[mode] = {**entry, "era": "legacy"}
    box.servers["missing"] = {"command": "/nowhere/${ODD_02}/${ODD_06}/run", "args": ["${ODD_01}"]}
    shown: dict[str, str] = {}
    with told_manager(box) as manager:
        box.up("--log-level", "debug")
        with box.peer() as watcher:
            events(watcher, *box.servers)
            with box.session("serve") as session:
                with pytest.raises(RpcError) as caught:
                    session.call("die")
                shown["a call"] = json.dumps([str(caught.value), caught.value.data])
            for name in ("refuse", "die", "missing"):
                with pytest.raises(RpcError) as caught:
                    watcher.request("mcpd/start", {"servers": [name]}, 30)
                shown[f"start {name}"] = json.dumps([str(caught.value), caught.value.data])
            with pytest.raises(RpcError) as caught:
                watcher.request("mcpd/call", {"server": "serve", "tool": "odd"}, 30)
            shown["mcpd/call"] = json.dumps([str(caught.value), caught.value.data])
            for method in ("mcpd/status", "mcpd/list", "mcpd/reload"):
                shown[method] = json.dumps(watcher.request(method), ensure_ascii=False)
            for name in (*box.servers, None):
                params = {"lines": 100000} if name is None else {"server": name, "lines": 100000}
                logged = watcher.request("mcpd/logs", params)
                shown[f"logs {name}"] = "\n".join(line["text"] for line in logged["lines"])
            shown["events"] = json.dumps(watcher.inbox, ensure_ascii=False)
        with box.bridge("--", sys.executable, str(LEAKY), "--pat", ODD[0], "serve") as brought:
            brought.request("tools/list")
            shown["status of a command line"] = box.ctl("--json", "status").stdout
            shown["list of a command line"] = box.ctl("--json", "list").stdout
        for words in (
            ["status"], ["--json", "status"], ["list"], ["--json", "list"], ["doctor", "-v"],
            ["doctor", "--json"], ["start", "die"], ["--json", "start", "die"], ["logs", "die"],
            ["logs", "serve", "-n", "5000"], ["--json", "logs", "refuse"], ["logs", "-n", "5000"],
        ):  # fmt: skip
            done = box.ctl(*words)
            shown[" ".join(words)] = done.stdout + done.stderr
        checked = subprocess.run(
            [binary("mcpd"), "--check"], env=box.env, capture_output=True, check=False
        )
        shown["--check"] = (checked.stdout + checked.stderr).decode(errors="surrogateescape")
        box.down()
        with contextlib.suppress(BlockingIOError):
            while data := manager.recv(65536):
                shown["the manager"] = shown.get("the manager", "") + data.decode()
    shown |= written(box)
    assert shown["logs serve"].count("***") > 500, "it was heard"
    assert "***" in shown["start refuse"] and "***" in shown["start die"]
    assert "STATUS=" in shown["the manager"]
    assert any("catalog" in where and "***" in text for where, text in shown.items())
    assert leaks(shown, ODD) == []


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
