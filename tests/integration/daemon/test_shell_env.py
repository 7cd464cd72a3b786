"""Variables that only the login shell has: found for the entries that name them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import Box, RpcError, binary
from tests.support.waiting import wait_until


@pytest.fixture
def shell(box: Box) -> Box:
    """A box whose daemon has a login shell with a profile."""
    box.env["SHELL"] = "/bin/bash"
    profile(box, "export ONLY=from-the-profile OTHER=not-for-servers")
    return box


def profile(box: Box, text: str) -> None:
    (Path(box.env["HOME"]) / ".bash_profile").write_text(f"echo run >> {runs(box)}\n{text}\n")


def runs(box: Box) -> Path:
    return box.root / "runs"


def count(box: Box) -> int:
    return len(runs(box).read_text().split()) if runs(box).exists() else 0


def holding(box: Box, needle: bytes) -> list[str]:
    """Return the files of a box that contain a text, except the profile."""
    return [
        str(path)
        for path in box.root.rglob("*")
        if path.is_file() and path.name != ".bash_profile" and needle in path.read_bytes()
    ]


def test_an_entry_gets_what_it_names_and_nothing_else(shell: Box) -> None:
    shell.env["WHO"] = "daemon"
    profile(shell, "export ONLY=from-the-profile OTHER=not-for-servers WHO=shell")
    env = {"A": "${ONLY}", "B": "${WHO}", "C": "${NOWHERE:-default}", "D": "${ONLY:-default}"}
    shell.fake(env=env).fake("other").up()
    with shell.session() as session:
        said = [session.text("env", name=name) for name in ("A", "B", "C", "D", "OTHER", "ONLY")]
    assert said == [
        *("from-the-profile", "daemon", "default", "from-the-profile"),
        *["<unset>"] * 2,
    ]
    with shell.session("other") as session:
        assert session.text("env", name="ONLY") == "<unset>"
    assert holding(shell, b"not-for-servers") == []
    assert count(shell) == 1


def test_a_first_list_of_all_has_the_tools_of_those_that_waited(shell: Box) -> None:
    shell.fake(env={"A": "${ONLY}"}).up()
    with shell.session(None) as session:
        tools = {tool["name"] for tool in session.request("tools/list")["tools"]}
    assert "fake__echo" in tools


def test_who_starts_it_by_hand_waits(shell: Box) -> None:
    shell.fake(env={"A": "${ONLY}"}).up()
    done = shell.ctl("start", "fake")
    assert done.returncode == 0, done.stderr
    assert shell.status()["state"] == "ready"


def test_the_shell_is_asked_once_and_only_if_somebody_needs_it(shell: Box) -> None:
    shell.fake(env={"A": "x"}).up()
    with shell.session() as session:
        session.text("echo", text="x")
    assert count(shell) == 0
    for name in ("ONLY", "OTHER"):
        shell.servers["fake"]["env"] = {"A": f"${{{name}}}"}
        shell.write()
        assert shell.ctl("reload").returncode == 0
        wait_until(lambda: shell.status()["state"] != "misconfigured", what="the variables")
        with shell.session() as session:
            assert session.text("env", 20.0, name="A") != "<unset>"
    assert count(shell) == 1


def test_what_nobody_has_is_an_error_that_names_the_shell(shell: Box) -> None:
    shell.fake(env={"A": "${NOWHERE}"}).up()
    wait_until(lambda: shell.status()["state"] == "misconfigured", what="the error")
    text = shell.status()["last_error"]
    assert "the variable NOWHERE is not set" in text and "login shell /bin/bash" in text
    assert "config.error" in shell.tail()
    with pytest.raises(RpcError, match="NOWHERE") as caught:
        shell.session()
    assert caught.value.kind == "config_invalid"


def test_a_server_that_runs_goes_on_when_its_new_entry_names_what_nobody_has(shell: Box) -> None:
    shell.fake(env={"A": "x"}).up()
    with shell.session() as session:
        pid = session.text("pid")
        shell.servers["fake"]["env"] = {"A": "${NOWHERE}"}
        shell.write()
        shell.ctl("reload")
        wait_until(lambda: shell.status()["last_error"], what="the error")
        assert "NOWHERE" in shell.status()["last_error"]
        assert session.text("pid") == pid


@pytest.mark.slow
def test_a_shell_that_hangs_holds_up_none_but_who_needs_it(shell: Box) -> None:
    profile(shell, "sleep 1000")
    shell.fake().fake("needs", env={"A": "${ONLY}"}).up()
    with shell.session() as session:
        assert session.text("echo", 3.0, text="x") == "x"
    assert shell.status("needs")["state"] in ("stopped", "starting")
    done = shell.ctl("call", "needs", "echo", "text=x")
    assert done.returncode == 4
    assert "did not answer within 5 s" in done.stderr


def test_the_shell_is_not_run_where_it_is_turned_off(shell: Box) -> None:
    shell.settings["shell_env"] = False
    shell.fake(env={"A": "${ONLY}"}).up()
    assert shell.status()["state"] == "misconfigured"
    assert "login shell" not in shell.status()["last_error"]
    assert count(shell) == 0
    shell.settings["shell_env"] = True
    shell.write()
    wait_until(lambda: shell.status()["state"] != "misconfigured", 20, what="the variables")
    with shell.session() as session:
        assert session.text("env", 20.0, name="A") == "from-the-profile"


def test_a_remote_server_gets_its_header(shell: Box) -> None:
    url = "http://127.0.0.1:9/mcp"
    headers = {"Authorization": "Bearer ${ONLY}"}
    shell.servers["far"] = {"url": url, "headers": headers}
    shell.servers["odd"] = {"url": "${NOWHERE}/mcp"}
    shell.up()
    wait_until(lambda: shell.status("odd")["state"] == "misconfigured", what="the answer")
    assert shell.status("far")["state"] == "stopped"
    assert shell.status("far")["last_error"] is None
    assert holding(shell, b"from-the-profile") == []


def test_a_configuration_that_broke_meanwhile_fails_the_start(shell: Box) -> None:
    """And is not waited for: the server starts once the file can be read."""
    gate = shell.root / "gate"
    profile(shell, f"while ! [ -e {gate} ]; do sleep 0.02; done; export ONLY=x")
    shell.settings["watch"] = False
    shell.fake(env={"A": "${ONLY}"}).up()
    shell.config.write_text("{")
    wait_until(lambda: count(shell), what="the shell")
    peer = shell.peer()
    asked = peer.start("mcpd/call", {"server": "fake", "tool": "echo", "arguments": {}})
    gate.touch()
    with pytest.raises(RpcError, match="cannot be read now"):
        peer.finish(asked, 30.0)
    shell.write()
    assert shell.ctl("reload").returncode == 0
    with shell.session() as session:
        assert session.text("env", 20.0, name="A") == "x"


def test_check_asks_the_shell_too(shell: Box) -> None:
    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [binary("mcpd"), "--check"], env=shell.env, text=True, capture_output=True, check=False
        )

    shell.fake(env={"A": "${ONLY}"}).write()
    assert check().returncode == 0
    shell.fake(env={"A": "${NOWHERE}"}).write()
    done = check()
    assert done.returncode == 2
    assert "the variable NOWHERE is not set" in done.stdout
    before = count(shell)
    shell.settings["shell_env"] = False
    shell.write()
    assert check().returncode == 2
    assert count(shell) == before
