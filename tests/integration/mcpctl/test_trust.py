"""``mcpctl trust`` and ``untrust``, with and without a daemon."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import Box, Json, binary
from tests.support.waiting import scaled

ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes its stdout its terminal, and becomes the command in its arguments."""


@pytest.fixture
def shop(box: Box) -> Path:
    """A project with one server."""
    folder = box.root / "home" / "shop"
    (folder / ".git").mkdir(parents=True)
    for place in (box.root / "home", folder):
        place.chmod(0o755)
    (folder / ".mcp.json").write_text('{"mcpServers": {"proj": {"command": "serve"}}}')
    box.write()
    return folder


def on_terminal(box: Box, *args: object, typed: str) -> tuple[int, str]:
    """Run ``mcpctl`` on a terminal of its own, and answer what it asks; its stdin is empty."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, binary("mcpctl"), *map(str, args)],
        env=box.env,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, b"yes\n")  # before the question: it answers nothing
    said, has_answered = b"", False
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # nobody has the other end any more
            break
        if not chunk:
            break
        said += chunk
        if b"yes or no: " in said and not has_answered:
            os.write(ours, typed.encode())
            has_answered = True
    os.close(ours)
    return child.wait(scaled(20)), said.decode()


def seen(box: Box, folder: Path) -> Json:
    found: Json = json.loads(box.ctl("trust", folder, "--json").stdout)
    return found


@pytest.mark.parametrize("runs", [False, True])
def test_the_answer_is_read_from_the_terminal(box: Box, shop: Path, runs: bool) -> None:
    if runs:
        box.up()
    status, said = on_terminal(box, "trust", shop, typed="no\n")
    assert status == 1
    assert "runs serve" in said
    assert seen(box, shop)["entries"][0]["state"] == "untrusted"
    status, said = on_terminal(box, "trust", shop, typed="yes\n")
    assert (status, seen(box, shop)["entries"][0]["state"]) == (0, "trusted"), said
    assert box.ctl("trust", shop).returncode == 0


def test_without_a_terminal_it_needs_the_hash(box: Box, shop: Path) -> None:
    done = subprocess.run(
        [binary("mcpctl"), "trust", str(shop)],
        env=box.env,
        input="yes\n",
        text=True,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 2
    digest = seen(box, shop)["hash"]
    assert f"--hash {digest}" in done.stderr
    assert box.ctl("trust", shop, "--hash", "0" * 64).returncode == 1
    assert seen(box, shop)["entries"][0]["state"] == "untrusted"
    assert box.ctl("trust", shop, "--hash", digest).returncode == 0
    assert seen(box, shop)["entries"][0]["state"] == "trusted"


@pytest.mark.parametrize("runs", [False, True])
def test_one_server_of_several(box: Box, shop: Path, runs: bool) -> None:
    if runs:
        box.up()
    servers = {"one": {"command": "a"}, "two": {"command": "b"}}
    (shop / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    digest = next(each["hash"] for each in seen(box, shop)["entries"] if each["name"] == "two")
    assert box.ctl("trust", shop, "--hash", digest, "--server", "one").returncode == 1
    assert box.ctl("trust", shop, "--hash", digest).returncode == 0
    assert [each["state"] for each in seen(box, shop)["entries"]] == ["untrusted", "trusted"]
    assert box.ctl("trust", shop, "--server", "three").returncode == 2


def test_it_is_listed_and_taken_back(box: Box, shop: Path) -> None:
    assert json.loads(box.ctl("trust", "--list", "--json").stdout) == {"trusted": [], "never": []}
    assert "no project" in box.ctl("trust", "--list").stdout
    assert box.ctl("untrust", shop).returncode == 1
    box.ctl("trust", shop, "--hash", seen(box, shop)["hash"])
    (listed,) = json.loads(box.ctl("trust", "--list", "--json").stdout)["trusted"]
    assert listed == {"dir": str(shop), "servers": ["proj"]}
    assert str(shop) in box.ctl("trust", "--list").stdout
    assert box.ctl("untrust", cwd=shop).returncode == 0
    assert json.loads(box.ctl("trust", "--list", "--json").stdout)["trusted"] == []


def test_never_is_remembered(box: Box, shop: Path) -> None:
    assert box.ctl("trust", shop, "--never").returncode == 0
    assert seen(box, shop)["entries"][0]["state"] == "never"
    box.up()
    assert "trust" not in box.ctl("status", cwd=shop).stdout
    assert box.ctl("call", "proj", "x", cwd=shop).returncode == 4
    assert json.loads(box.ctl("trust", "--list", "--json").stdout)["never"] == [
        {"dir": str(shop), "servers": None}
    ]


def test_what_others_can_write_is_left_and_named(box: Box, shop: Path) -> None:
    shop.chmod(0o777)
    done = box.ctl("trust", shop)
    assert done.returncode == 1
    assert "chmod go-w" in done.stderr
    assert seen(box, shop)["entries"] == []


def test_what_waits_is_said_with_what_to_type(box: Box, shop: Path) -> None:
    box.up()
    told = f"mcpctl --socket {box.socket} trust {shop}"
    named = box.ctl("--socket", box.socket, "status", cwd=shop).stdout
    assert told in named
    assert told in box.ctl("--socket", box.socket, "doctor", cwd=shop).stdout
    findings = json.loads(box.ctl("doctor", "--json", cwd=shop).stdout)["findings"]
    assert "project_untrusted" in {each["id"] for each in findings}
