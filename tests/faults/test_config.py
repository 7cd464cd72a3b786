"""Cases from the field: configurations as people write them, and as they change them."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ground import installed
from tests.support.daemon import FAKE_SERVER, Box, Json, RpcError, binary, is_alive
from tests.support.waiting import scaled, wait_until

LIST_CHANGED = "notifications/tools/list_changed"
ARGS = ["-I", "-S", str(FAKE_SERVER)]


def check(box: Box, config: Path) -> tuple[int, str]:
    """Return what ``mcpd --check`` says of a file."""
    command = [binary("mcpd"), "--check", "--config", str(config)]
    done = subprocess.run(
        command, env=box.env, text=True, capture_output=True, timeout=scaled(20), check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_comments_trailing_commas_and_a_byte_order_mark_cost_no_server(box: Box):
    """
    B099: the whole file was rejected, and all servers with it.
    """
    text = f"""\ufeff{{
      // what my editor writes
      "mcpServers": {{
        "fake": {{
          "command": {json.dumps(sys.executable)}, /* not "python" */
          "args": {json.dumps(ARGS)[:-1]},],
          "env": {{"URL": "https://example.org/*x*/", }}, // with slashes in it
        }},
      }},
    }}
    """
    config = box.root / "given.json"
    config.write_bytes(text.replace("\n", "\r\n").encode())
    box.up("--config", str(config))
    with box.session() as session:
        assert session.text("env", name="URL") == "https://example.org/*x*/"
    config.write_bytes(text.replace('"env":', '"env"').encode())
    status, told = check(box, config)
    assert status == 2
    assert f"{config}, line 7, column " in told


@pytest.fixture(scope="module")
def mixed() -> Iterator[Box]:
    """A daemon of whose servers some are misconfigured."""

    def configure(box: Box) -> None:
        box.env |= {"SET": "value", "EMPTY": "", "NESTED": "$SET"}
        table = {f"V{number}": text for number, text in enumerate(VARIABLES)}
        box.fake("fine", env=table, cwd="${HOME}")
        box.fake("odd", commnd="x")
        box.servers["args"] = {"command": "x", "args": "-y"}
        box.servers["element"] = {"command": "x", "args": ["a", 5]}
        box.servers["env"] = {"command": "x", "env": {"PORT": 8080}}
        box.servers["unset"] = {"command": "x", "args": ["--token", "${NOT_SET_ANYWHERE}"]}

    with installed(configure) as made:
        yield made


def test_one_bad_entry_is_one_server_less(mixed: Box):
    """
    B100: every server disappeared, and the message named none.
    """
    for name in ("fine", "odd"):
        with mixed.session(name) as session:
            assert session.text("echo", text="x") == "x"
    paths = {"args": "mcpServers.args.args", "element": "mcpServers.element.args[1]"}
    for name, path in (paths | {"env": "mcpServers.env.env.PORT"}).items():
        assert mixed.status(name)["state"] == "misconfigured"
        with pytest.raises(RpcError) as caught:
            mixed.session(name)
        assert caught.value.kind == "config_invalid"
        assert path in caught.value.message
    status, told = check(mixed, mixed.config)
    assert status == 2
    assert "did you mean command" in told


VARIABLES = {
    "$SET": "value",
    "${SET}": "value",
    "${env:SET}": "value",
    "${NOT_SET:-default}": "default",
    "${EMPTY:-default}": "default",
    "${NOT_SET:-}": "",
    "$$SET": "$SET",
    "a$SET/${SET}b": "avalue/valueb",
    "${NESTED}": "$SET",
    "~/x": "HOME/x",
    "a~b": "a~b",
}


def test_variables_are_what_they_are_in_every_clients_manner(mixed: Box):
    """
    B101: they were passed on as they stood, or became nothing and hid the mistake. B104: ``~``, too.
    """
    with mixed.session("fine") as session:
        home = mixed.env["HOME"]
        assert session.text("cwd") == home
        for number, (text, value) in enumerate(VARIABLES.items()):
            wanted = value.replace("HOME", home)
            assert session.text("env", name=f"V{number}") == wanted, text
    with pytest.raises(RpcError, match="NOT_SET_ANYWHERE") as caught:
        mixed.session("unset")
    assert "mcpServers.unset.args[1]" in caught.value.message
    assert mixed.status("unset")["state"] == "misconfigured"


@pytest.mark.parametrize("how", ["reload", "SIGHUP", "watch"])
def test_an_edit_touches_what_it_changes_and_nothing_else(box: Box, how: str):
    """
    B108: any edit needed a full restart, or restarted servers that nobody had touched.
    """
    for name in ("same", "changed", "filtered", "removed"):
        box.fake(name)
    box.servers["broken"] = {"command": "nonexistent-command", "restart": {"max_failures": 1}}
    box.settings["watch"] = how == "watch"
    box.up()
    with contextlib.ExitStack() as stack:
        running = ("same", "changed", "filtered", "removed")
        sessions = {name: stack.enter_context(box.session(name)) for name in running}
        pids = {name: session.text("pid") for name, session in sessions.items()}
        with box.peer() as peer, pytest.raises(RpcError):
            peer.request("mcpd/start", {"servers": ["broken"]})
        slow = sessions["same"].start("tools/call", {"name": "sleep", "arguments": {"ms": 700}})

        box.config.write_text("// nothing but a comment\n" + box.config.read_text())
        change(box, how)
        box.servers["changed"]["env"] = {"NEW": "1"}
        box.servers["filtered"]["tools"] = {"deny": ["crash"]}
        del box.servers["removed"]
        box.fake("broken")
        box.write()
        change(box, how)

        assert sessions["changed"].text("env", name="NEW") == "1"
        sessions["filtered"].take_notification(LIST_CHANGED)
        listed: list[Json] = sessions["filtered"].request("tools/list", {})["tools"]
        assert "crash" not in [tool["name"] for tool in listed]
        assert sessions["same"].finish(slow)["content"][0]["text"] == "slept 700"
        now = {name: sessions[name].text("pid") for name in ("same", "changed", "filtered")}
        assert {name for name in now if now[name] != pids[name]} == {"changed"}
        wait_until(lambda: not is_alive(int(pids["removed"])))
        with pytest.raises(RpcError) as caught:
            sessions["removed"].text("pid")
        assert caught.value.kind == "server_not_found"
        with box.session("broken") as mended:
            assert mended.text("echo", text="x") == "x"


def change(box: Box, how: str) -> None:
    """Have the daemon notice a changed file, and wait until it has."""
    assert box.daemon
    with box.peer() as peer:
        match how:
            case "reload":
                assert peer.request("mcpd/reload")["errors"] == []
            case "SIGHUP":
                box.daemon.send_signal(signal.SIGHUP)
        wait_until(
            lambda: {e["name"] for e in peer.request("mcpd/list")["servers"]} == {*box.servers}
        )
