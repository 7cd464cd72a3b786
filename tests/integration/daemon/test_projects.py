"""Servers of a project under a running daemon: nothing of a clone runs before a person says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpd.projects import files, kept
from tests.support.daemon import FAKE_SERVER, Box, Json, Peer, RpcError, is_alive
from tests.support.waiting import wait_until


class Clone:
    """A project below the home directory of a box, and what a person has answered for it."""

    def __init__(self, box: Box, name: str = "shop") -> None:
        self.box = box
        self.folder = box.root / "home" / name
        (self.folder / ".git").mkdir(parents=True)
        for place in (box.root / "home", self.folder):
            place.chmod(0o755)

    def entry(self, name: str, *flags: object, **more: Any) -> Json:
        """Return the entry of a fake server, as it would stand in the configuration."""
        before = self.box.servers
        self.box.servers = {}
        found = self.box.fake(name, *flags, **more).servers[name]
        self.box.servers = before
        return found

    def offer(self, **servers: Json) -> None:
        (self.folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def trust(self, *, folder: Path | None = None) -> None:
        """Answer as a person does, whose terminal is not below this process."""
        found = files.read(str(folder or self.folder))
        path = kept.path_in(str(self.box.state))
        kept.trust(path, found.home, kept.answers(found.offers.values(), found.directory))

    def session(self, server: str | None = None, folder: Path | None = None) -> Peer:
        return self.box.session(server, cwd=str(folder or self.folder))


@pytest.fixture
def clone(box: Box, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """A clone that offers ``proj``, beside the user's own ``mine``; the daemon runs."""
    made = Clone(box)
    monkeypatch.setenv("HOME", box.env["HOME"])  # `files` is used in this process, too
    made.offer(proj=made.entry("proj"))
    box.fake("mine").up()
    return made


def servers(peer: Peer) -> set[str]:
    listed = peer.request("tools/list", timeout=20.0)["tools"]
    return {tool["name"].partition("__")[0] for tool in listed}


def test_a_client_in_a_clone_gets_its_servers_as_soon_as_they_are_trusted(clone: Clone) -> None:
    box = clone.box
    client = box.bridge(cwd=clone.folder)
    assert servers(client) == {"mine"}
    assert box.pids("proj") == []
    clone.trust()
    client.take_notification("notifications/tools/list_changed")
    wait_until(lambda: servers(client) == {"mine", "proj"}, what="the project's server")
    assert client.text("proj__echo", text="x") == "x"
    assert servers(box.bridge()) == {"mine"}


def test_a_changed_entry_finishes_its_calls_and_stops(clone: Clone) -> None:
    box = clone.box
    clone.trust()
    client = clone.session()
    assert client.text("proj__echo", text="x") == "x"
    (pid,) = box.pids("proj")
    call = client.start("tools/call", {"name": "proj__sleep", "arguments": {"ms": 500}})
    wait_until(lambda: box.messages("proj", "tools/call")[1:], what="the call to arrive")
    clone.offer(proj=clone.entry("proj", "--extra", 3))
    assert not client.finish(call).get("isError")
    wait_until(lambda: not is_alive(pid), 10, what="its process to end")
    assert servers(client) == {"mine"}
    assert box.pids("proj") == [pid]
    with pytest.raises(RpcError) as refused:
        clone.session("proj")
    assert refused.value.kind == "denied"
    assert refused.value.data["reason"] == "project"
    assert "mcpctl trust" in refused.value.data["hint"]


def test_it_runs_in_its_directory_and_knows_it(clone: Clone) -> None:
    program = clone.folder / "serve.py"
    program.write_text(f"#!{sys.executable}\n" + FAKE_SERVER.read_text())
    program.chmod(0o755)
    pidfile = "${workspaceFolder}/pids"
    clone.offer(proj={"command": "./serve.py", "args": ["--name", "proj", "--pidfile", pidfile]})
    clone.trust()
    client = clone.session("proj")
    assert client.text("cwd") == str(clone.folder)
    assert (clone.folder / "pids").exists()


def test_a_daemon_that_is_replaced_reads_them_again(clone: Clone) -> None:
    clone.trust()
    client = clone.box.bridge("proj", cwd=clone.folder)
    assert client.text("echo", text="1") == "1"
    clone.box.down()
    clone.box.up()
    assert client.text("echo", text="2", timeout=20.0) == "2"


def test_the_worktrees_of_a_repository_share_what_is_trusted(clone: Clone, tmp_path: Path) -> None:
    main, tree = clone.folder, clone.folder.parent / "tree"
    (main / ".git").rmdir()
    for words in (
        ["init", "-q", main],
        [*f"-C {main} -c user.name=x -c user.email=x@y commit -q --allow-empty -m x".split()],
        ["-C", main, "worktree", "add", "-q", tree],
    ):
        subprocess.run(["git", *map(str, words)], check=True, capture_output=True)
    tree.chmod(0o755)
    (tree / ".mcp.json").write_text((main / ".mcp.json").read_text())
    clone.trust()
    assert servers(clone.session(folder=tree)) == {"mine", "proj"}
    copy = clone.folder.parent / "copy"
    (copy / ".git").mkdir(parents=True)
    (copy / ".mcp.json").write_text((main / ".mcp.json").read_text())
    assert servers(clone.session(folder=copy)) == {"mine"}


def test_no_command_gets_around_it(clone: Clone) -> None:
    box = clone.box
    for words in (
        ["call", "proj", "echo"],
        ["start", "proj"],
        ["tools", "proj"],
        ["connect", "proj"],
        ["start", f"proj@{clone.folder}"],
        ["call", f"proj@{clone.folder}", "echo"],
    ):
        done = box.ctl(*words, cwd=clone.folder)
        assert done.returncode in (4, 6), (words, done)
    assert box.ctl("start", "--all", cwd=clone.folder).returncode == 0
    assert box.pids("proj") == []


def test_control_calls_from_the_project_reach_it_and_others_do_not(clone: Clone) -> None:
    box = clone.box
    clone.trust()
    done = box.ctl("call", "proj", "echo", "text=x", cwd=clone.folder)
    assert done.stdout.strip() == "x", done
    assert box.ctl("call", "proj", "echo", "text=x", cwd=box.root).returncode == 4
    assert "proj.echo" in box.ctl("tools", cwd=clone.folder).stdout
    assert "proj.echo" not in box.ctl("tools", cwd=box.root).stdout
    assert box.ctl("stop", "proj", cwd=clone.folder).returncode == 0
    (pid,) = box.pids("proj")
    assert not is_alive(pid)


@pytest.mark.parametrize("words", [("untrust",), ("trust", "--never")])
def test_what_is_taken_back_stops_where_nobody_has_a_session(
    clone: Clone, words: tuple[str, ...]
) -> None:
    """The files are watched for sessions alone."""
    box = clone.box
    clone.trust()
    assert box.ctl("call", "proj", "echo", "text=x", cwd=clone.folder).stdout.strip() == "x"
    (pid,) = box.pids("proj")
    assert box.ctl(*words, clone.folder, cwd=box.root).returncode == 0
    wait_until(lambda: not is_alive(pid), 10, what="its process to end")


def test_answers_are_kept_where_the_daemon_is(clone: Clone) -> None:
    """``mcpctl`` finds the daemon by the note in the home directory alone."""
    box = clone.box
    clone.trust()
    given = ("MCPD_", "XDG_")
    box.env = {key: value for key, value in box.env.items() if not key.startswith(given)}
    listed = json.loads(box.ctl("trust", "--list", "--json").stdout)["trusted"]
    assert listed == [{"dir": str(clone.folder), "servers": ["proj"]}]
    (entry,) = json.loads(box.ctl("trust", clone.folder, "--json").stdout)["entries"]
    assert entry["state"] == "trusted"
    assert box.ctl("untrust", clone.folder).returncode == 0
    assert json.loads((box.state / "projects.json").read_text())["projects"] == []


def test_a_client_and_what_it_starts_may_not_trust(clone: Clone) -> None:
    """
    The bridge's parent is this process, and so what this process starts is below a client.
    """
    box = clone.box
    box.bridge(cwd=clone.folder)
    digest = files.read(str(clone.folder)).hash
    for given in (digest, "0" * 64):
        done = box.ctl("trust", clone.folder, "--hash", given, "--json")
        assert done.returncode == 6
        assert json.loads(done.stdout)["error"]["data"]["reason"] == "asker"
    nowhere = ("--socket", box.root / "none.sock")
    assert box.ctl(*nowhere, "trust", clone.folder, "--hash", digest).returncode == 6
    assert not (box.state / "projects.json").exists()
    assert box.ctl("trust", clone.folder, "--json").returncode == 0


def test_nothing_of_it_is_read_where_that_is_off(clone: Clone) -> None:
    box = clone.box
    clone.trust()
    assert servers(clone.session()) == {"mine", "proj"}
    box.settings["projects"] = False
    client = clone.session()
    box.write().peer().request("mcpd/reload", timeout=30.0)
    assert servers(client) == {"mine"}
    box.settings["projects"] = True
    box.write().peer().request("mcpd/reload", timeout=30.0)
    wait_until(lambda: servers(client) == {"mine", "proj"}, what="the project's server again")


def test_a_variable_is_looked_up_for_what_is_trusted_alone(clone: Clone) -> None:
    box = clone.box
    box.down()
    box.env["SECRET"] = "hunter2-sentinel"
    box.up()
    clone.offer(proj=clone.entry("proj", env={"SHOWN": "${SECRET}", "GONE": "${NOWHERE}"}))
    clone.session()
    told = box.ctl("status", "--json").stdout
    told += box.ctl("list", "--json").stdout + box.ctl("doctor", cwd=clone.folder).stdout
    told += box.tail() + "".join(
        path.read_text(errors="replace") for path in box.state.rglob("*") if path.is_file()
    )
    assert "hunter2" not in told
    assert "NOWHERE" not in told
