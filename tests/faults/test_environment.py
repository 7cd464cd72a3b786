"""Cases from the field: where a server's command and its environment come from."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import FAKE_SERVER, TAG, Box, RpcError, binary
from tests.support.waiting import wait_until

MINIMAL = "/usr/bin:/bin:/usr/sbin:/sbin"
NVM = ".nvm/versions/node/v22.1.0/bin"
FAKE = f'exec "{sys.executable}" "{FAKE_SERVER}" "$@"'


def as_a_service(box: Box, **variables: str) -> Path:
    """Give a daemon what a service manager gives; return its home directory."""
    home = Path(box.env["HOME"])
    kept = {k: v for k, v in box.env.items() if k.startswith(("MCPD", "XDG_")) or k == "HOME"}
    assert TAG in kept
    box.env = {**kept, "PATH": MINIMAL, "SHELL": "/bin/bash", **variables}
    return home


def script(path: Path, text: str) -> Path:
    """Make a program that a shell runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def shell(box: Box, text: str) -> str:
    """Make a login shell that does something else than shells do."""
    return str(script(box.root / "strange-shell", text))


def log_of(box: Box, event: str) -> list[str]:
    return [line for line in box.tail(1000).splitlines() if event in line]


def test_what_only_the_login_shell_finds_is_found(box: Box):
    """
    B029: it worked in a terminal, and from a service it was `spawn npx ENOENT`.
    """
    home = as_a_service(box)
    bin_directory = home / NVM
    script(bin_directory / "npx", FAKE)
    (home / ".bashrc").write_text(
        'case $- in *i*) ;; *) return ;; esac\necho "a greeting"\nexec >/dev/null\n'
        f'[ -n "$MCPD_RESOLVING_ENV" ] && export PATH="$HOME/{NVM}:$PATH"\n'
    )
    box.servers["npx"] = {"command": "npx"}
    box.up()
    with box.session("npx") as session:
        path = session.text("env", name="PATH").split(":")
        assert path[0] == str(bin_directory)
        assert set(MINIMAL.split(":")) <= set(path)
        assert session.text("env", name="MCPD_RESOLVING_ENV") == "<unset>"
    assert "shell=/bin/bash added=" in log_of(box, "env.login_path")[0]
    with box.peer() as peer:
        told = peer.request("mcpd/list")["path"]
    assert told["source"] == "login shell"
    assert str(bin_directory) in told["directories"]


def test_a_shim_has_the_home_and_the_directory_that_it_needs(box: Box):
    """
    B029: the shims of asdf and mise look for versions in HOME and in the directory they run in.
    """
    home = as_a_service(box)
    (home / ".profile").write_text('export PATH="$HOME/.asdf/shims:$PATH"\n')
    script(home / ".asdf/shims/npx", f'[ -n "$HOME" ] && [ -e .tool-versions ] && {FAKE}')
    project = home / "project"
    project.mkdir()
    (project / ".tool-versions").write_text("nodejs 22.1.0\n")
    box.servers["shim"] = {"command": "npx", "cwd": str(project)}
    box.up()
    with box.session("shim") as session:
        assert session.text("cwd") == str(project)


def test_a_command_that_is_nowhere_is_told_with_where_it_was_looked_for(box: Box):
    """
    B029: nobody could tell where it had been looked for, and on whose PATH.
    """
    home = as_a_service(box)
    (home / ".profile").write_text('PATH="/opt/nowhere:$PATH"\n')
    box.servers["gone"] = {"command": "nowhere-to-be-found"}
    box.up()
    with box.session("gone", handshake=False) as session, pytest.raises(RpcError) as caught:
        session.initialize()
    assert caught.value.kind == "spawn_failed"
    assert {"/opt/nowhere", "/usr/bin"} <= set(caught.value.data["searched"])
    assert "command -v nowhere-to-be-found" in caught.value.data["hint"]
    assert "login shell /bin/bash" in caught.value.data["hint"]


@pytest.mark.parametrize("trouble", ["hangs", "floods", "becomes another"])
def test_an_rc_file_that_goes_wrong_costs_a_warning(box: Box, trouble: str):
    """
    B029: a captured PATH must not cost more than it brings. Nothing is left of the shell.
    """
    as_a_service(box)
    box.env["SHELL"] = shell(
        box,
        {
            "hangs": f"echo $$ >> {box.root}/pids; sleep 1000 & echo $! >> {box.root}/pids; wait",
            "floods": f"echo $$ >> {box.root}/pids; while :; do echo 0123456789; done",
            "becomes another": "exec cat",
        }[trouble],
    )
    box.fake("absolute")
    box.servers["relative"] = {**box.servers["absolute"], "command": "python3", "args": ["-c", ""]}
    box.up()
    with box.session("absolute") as session:
        assert session.text("env", name="PATH").startswith(MINIMAL)
        if trouble != "becomes another":
            assert not log_of(box, "env.login_path_failed")  # it was not waited for to its end
    wait_until(lambda: log_of(box, "env.login_path_failed"), 20)
    pids = box.root / "pids"
    for pid in map(int, pids.read_text().split() if pids.exists() else []):
        wait_until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"))
    assert box.down() == 0


def test_a_path_of_ones_own_asks_no_shell(box: Box):
    """
    A daemon that was started from a terminal has what the terminal has.
    """
    as_a_service(box)
    asked = box.root / "asked"
    box.env["SHELL"] = shell(box, f"touch {asked}")
    box.env["PATH"] = f"{MINIMAL}:{box.root}"
    with box.fake().up().session() as session:
        assert session.text("env", name="PATH").startswith(box.env["PATH"])
    assert not asked.exists()


def test_a_server_that_prints_what_ascii_has_not_lives(box: Box):
    """
    B070: a service has no locale, and a server written in Python died at its first ✓.
    """
    as_a_service(box, PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")  # as older ones of it
    box.fake("fake")
    args = [
        "-c",
        r"import os, sys; print('\u2713', flush=True); os.execv(sys.argv[1], sys.argv[1:])",
    ]
    fake = box.servers["fake"]
    box.servers["ticks"] = {**fake, "args": [*args, fake["command"], *fake["args"]]}
    box.servers["own"] = {**fake, "env": {"LANG": "POSIX"}}
    box.up()
    with box.session("ticks") as session:
        assert session.text("env", name="LC_CTYPE") == "C.UTF-8"
        assert session.text("echo", text="✓") == "✓"
    with box.session("own") as session:
        assert session.text("env", name="LC_CTYPE") == "<unset>"


def test_a_command_line_in_one_string_is_understood(box: Box):
    """
    B107: shell habits. What is odd is told, by ``mcpd --check`` too.
    """
    box.fake("fake")
    fake = box.servers.pop("fake")
    tool = script(box.root / "My Tools" / "srv", f'echo "$#:$1" >&2\n{FAKE}')
    box.servers["line"] = {"command": shlex.join([fake["command"], *fake["args"]])}
    box.servers["path"] = {"command": str(tool), "args": ["--name", "two words"]}
    box.servers["both"] = {"command": f"{tool} --name 'two words'"}
    box.servers["half"] = {**fake, "args": [*fake["args"], "--tools 3"], "enabled": False}
    box.up()
    for name in ("line", "path", "both"):
        with box.session(name) as session:
            assert session.text("echo", text="x") == "x"
    done = subprocess.run(
        [binary("mcpd"), "--check"], env=box.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    warnings = [line for line in done.stdout.splitlines() if "warning" in line and "mcpS" in line]
    keys = [next(word for word in line.split() if word.startswith("mcpS")) for line in warnings]
    half = f"mcpServers.half.args[{len(fake['args'])}]:"
    assert keys == ["mcpServers.line.command:", "mcpServers.both.command:", half]


def test_a_servers_directory_is_the_one_that_was_meant(box: Box):
    """
    B034: it was the daemon's, and the answers were about the wrong project.
    """
    home = Path(box.env["HOME"])
    projects = [box.root / "one", box.root / "two"]
    for project in projects:
        (project / ".git").mkdir(parents=True)
        (project / "deep").mkdir()
    box.fake("shared").fake("placed", cwd="~/conf").fake("own", sharing="workspace")
    (home / "conf").mkdir()
    box.up()
    with box.session("shared", cwd=str(projects[0])) as session:
        assert session.text("cwd") == str(home)
    with box.session("placed", cwd=str(projects[0])) as session:
        assert session.text("cwd") == str(home / "conf")
    with (
        box.session("own", cwd=str(projects[0] / "deep")) as one,
        box.session("own", cwd=str(projects[1])) as two,
        box.session("own", cwd=str(projects[0])) as again,
        box.bridge("own", cwd=projects[1]) as bridge,
        box.session("own", cwd="/") as nowhere,
    ):
        assert [one.text("cwd"), two.text("cwd")] == list(map(str, projects))
        assert again.text("pid") == one.text("pid")
        assert bridge.text("pid") == two.text("pid")
        assert nowhere.text("cwd") == str(home)
        keys = {each["key"] for each in box.status("own")["instances"]}
        assert keys == {"workspace:", *(f"workspace:{project}" for project in projects)}
    called = box.ctl("call", "own", "cwd", cwd=projects[1] / "deep")
    assert called.stdout.strip() == str(projects[1])


def test_the_workspace_is_the_sessions(box: Box):
    """
    B103: `${workspaceFolder}` was passed on as it stands, or was the home directory.
    """
    project = box.root / "my project"
    (project / ".git").mkdir(parents=True)
    script(project / "bin" / "srv", FAKE)
    box.fake("fake")
    fake = box.servers.pop("fake")
    words = {"W": "${workspaceFolder}", "N": "${workspaceFolderBasename}", "H": "${userHome}"}
    box.servers["auto"] = {**fake, "env": words}
    box.servers["inside"] = {"command": "${workspaceFolder}/bin/srv", "sharing": "session"}
    box.servers["wrong"] = {**fake, "env": words, "sharing": "shared"}
    box.up()
    for attach in ({}, {"cwd": "/"}):
        with box.session("auto", handshake=False, **attach) as session:
            with pytest.raises(RpcError, match="started for a workspace") as caught:
                session.initialize()
            assert caught.value.kind == "spawn_failed"
            assert "cwd" in caught.value.data["hint"]
    for attach in ({"cwd": str(project / "bin")}, {"roots": [project.as_uri()], "cwd": "/"}):
        with box.session("auto", **attach) as session:
            assert session.text("env", name="W") == session.text("cwd") == str(project)
            assert session.text("env", name="N") == "my project"
            assert session.text("env", name="H") == box.env["HOME"]
        with box.session("inside", **attach) as session:
            assert session.text("cwd") == str(project)
    status = box.status("auto")
    assert (status["sharing"], status["restarts"]) == ("workspace", 0)
    assert "workspaceFolder" in status["sharing_reason"]
    assert "mcpServers.wrong.sharing" in box.status("wrong")["last_error"]
    called = box.ctl("call", "auto", "env", "name=W", cwd=project)
    assert called.stdout.strip() == str(project)
    assert box.ctl("start", "auto").returncode == 4
    with box.session(None, cwd=str(project)) as session:
        assert session.text("auto__env", name="W") == str(project)
