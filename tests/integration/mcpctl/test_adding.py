"""Servers added, changed and removed by hand, with and without a daemon, and on a terminal."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpd import exits
from tests.support.daemon import Box
from tests.support.terminal import typed

GOOD = '{\n  // kept\n  "mcpServers": {"files": {"command": "uvx", "args": ["x"]}}\n}\n'


def own(home: Box) -> Path:
    return home.root / "home" / ".config" / "mcpd" / "mcp.json"


def entries(home: Box) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(own(home).read_text())["mcpServers"]
    return found


def test_a_running_daemon_has_each_change_when_the_command_ends(box: Box) -> None:
    """
    The next command need not wait for the daemon to notice the file.
    """
    box.fake("other").up()
    box.fake("fake")
    one = box.servers["fake"]
    command = [one["command"], *one["args"]]
    assert box.ctl("add", "fake", "--", *command).returncode == exits.DONE
    assert box.ctl("call", "fake", "echo", "text=x").stdout == "x\n"
    told = json.loads(box.ctl("disable", "fake", "--json").stdout)
    assert told["applied"] is True
    assert [server["name"] for server in told["servers"]] == ["fake"]
    assert box.ctl("call", "fake", "echo", "text=x").returncode == exits.NO_SERVER
    assert box.ctl("enable", "fake").returncode == exits.DONE
    assert box.ctl("call", "fake", "echo", "text=x").returncode == exits.DONE
    assert box.ctl("remove", "fake").returncode == exits.DONE
    listed = json.loads(box.ctl("list", "--json").stdout)["servers"]
    assert [server["name"] for server in listed] == ["other"]


def test_an_entry_that_the_daemon_cannot_use_is_said_at_once(box: Box) -> None:
    box.fake("other").up()
    done = box.ctl("add", "x", "--env", "NOWHERE_TO_BE_FOUND", "--", "uvx", "y")
    assert done.returncode == exits.DONE
    assert "NOWHERE_TO_BE_FOUND is not set" in done.stderr


def test_no_daemon_is_needed_and_none_is_started(home: Box) -> None:
    for args in (["add", "x", "--", "uvx"], ["disable", "x"], ["enable", "x"], ["remove", "x"]):
        done = home.ctl(args[0], "--json", *args[1:])
        assert done.returncode == exits.DONE, done.stderr
        assert json.loads(done.stdout)["applied"] is False
    assert entries(home) == {}
    assert home.ctl("status").returncode == exits.NO_DAEMON


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["add", "x", "--", "uvx", "other"], "already"),
        (["add", "y", "--sharing", "nobody", "--", "uvx"], "sharing"),
        (["add-json", "y", '{"args": ["x"]}'], "neither a command nor an address"),
        (["add-json", "y", "{nonsense"], "double quotes"),
        (["add", "--from", "/nowhere/file"], "/nowhere/file"),
        (["add", "--preset", "githob"], "github"),
        (["add", "--preset", "filesystem"], "DIRECTORY"),
        (["add", "--preset", "time", "--from", "-"], "both say what to add"),
        (["add", "--preset", "notion", "--", "x"], "takes no arguments"),
    ],
)
def test_what_cannot_be_added_changes_nothing(home: Box, args: list[str], says: str) -> None:
    assert home.ctl("add", "x", "--", "uvx").returncode == exits.DONE
    before = own(home).read_bytes()
    done = home.ctl(*args)
    assert done.returncode == exits.USAGE
    assert says in done.stderr
    assert own(home).read_bytes() == before


def test_a_preset_takes_what_it_needs_from_the_command_line(home: Box) -> None:
    for args in (
        ["--preset", "filesystem", "docs", "--", "/srv/docs", "/srv/more"],
        ["--preset", "slack", "--env", "SLACK_MCP_XOXP_TOKEN"],
        ["--preset", "github", "--env", "GITHUB_PERSONAL_ACCESS_TOKEN=x", "--disabled"],
        ["--preset", "github", "hub", "--bearer", "${HUB}"],
    ):
        done = home.ctl("add", *args)
        assert done.returncode == exits.DONE, done.stderr
    found = entries(home)
    assert found["github"]["headers"] == {"Authorization": "Bearer x"}
    assert found["github"]["enabled"] is False
    assert found["docs"]["args"][2:] == ["/srv/docs", "/srv/more"]
    assert found["slack"]["env"] == {"SLACK_MCP_XOXP_TOKEN": "${SLACK_MCP_XOXP_TOKEN}"}


def test_a_preset_asks_on_a_terminal_for_what_it_needs(home: Box) -> None:
    """
    A token is not shown while it is typed, and the file that holds it is private.
    """
    answers = {"BRAVE_API_KEY (not shown": "k$y-0123456789", "Test": "n"}
    status, said = typed(home, "add", "--preset", "brave-search", answers=answers)
    assert status == exits.DONE
    assert "k$y-0123456789" not in said
    assert entries(home)["brave-search"]["env"] == {"BRAVE_API_KEY": "k$$y-0123456789"}
    assert own(home).stat().st_mode & 0o777 == 0o600
    answers = {"DIRECTORY:": str(home.root), "Test": "n"}
    assert typed(home, "add", "--preset", "filesystem", answers=answers)[0] == exits.DONE
    assert entries(home)["filesystem"]["args"][-1] == str(home.root)


def test_add_offers_to_test_what_it_has_added(box: Box) -> None:
    box.fake("other").up()
    box.fake("fake")
    one = box.servers["fake"]
    words = ["add", "fake", "--", one["command"], *one["args"]]
    status, said = typed(box, *words, answers={"Test fake now?": "y"})
    assert status == exits.DONE
    assert "fake works: " in said


def editor(home: Box, *texts: str, status: int = 0) -> None:
    """Have EDITOR be a program that saves these texts, one at each start."""
    script = home.root / "editor.py"
    script.write_text(f"""
import pathlib, sys
count = pathlib.Path({str(home.root / "count")!r})
n = int(count.read_text()) if count.exists() else 0
count.write_text(str(n + 1))
pathlib.Path(sys.argv[-1]).write_text({list(texts)!r}[min(n, {len(texts) - 1})])
sys.exit({status})
""")
    home.env |= {"EDITOR": f"{sys.executable} {script}", "VISUAL": ""}


def configured(home: Box) -> Path:
    own(home).parent.mkdir(parents=True, exist_ok=True)
    own(home).write_text(GOOD)
    return own(home)


def test_an_edit_that_is_wrong_can_be_edited_again(home: Box) -> None:
    path = configured(home)
    better = GOOD.replace('"x"', '"y"')
    editor(home, GOOD.replace('"files":', '"files"'), better)
    status, said = typed(home, "edit", answers={"(e)dit it again": "e"})
    assert status == exits.DONE
    assert "line 3, column " in said
    assert path.read_text() == better
    assert sorted(os.listdir(path.parent)) == ["mcp.json"]


def test_an_edit_that_is_given_up_is_kept_beside_the_file(home: Box) -> None:
    path = configured(home)
    editor(home, GOOD.replace('"files":', '"files"'))
    done = home.ctl("edit")
    assert done.returncode == exits.USAGE
    assert path.read_text() == GOOD
    kept = next(name for name in os.listdir(path.parent) if name != "mcp.json")
    assert str(path.parent / kept) in done.stderr


def test_an_editor_that_fails_changes_nothing(home: Box) -> None:
    path = configured(home)
    editor(home, GOOD.replace("kept", "lost"), status=1)
    done = home.ctl("edit")
    assert done.returncode == exits.USAGE
    assert "status 1" in done.stderr
    assert path.read_text() == GOOD
    home.env["EDITOR"] = "/nowhere/editor --wait"
    assert "/nowhere/editor" in home.ctl("edit").stderr
    home.env["EDITOR"] = ""
    assert "set EDITOR" in home.ctl("edit").stderr
    home.env["EDITOR"] = "unbalanced '"
    assert home.ctl("edit").returncode == exits.USAGE


def test_a_running_daemon_has_an_edit_when_it_is_saved(box: Box) -> None:
    box.fake("fake").up()
    text = box.config.read_text()
    editor(box, text.replace('"fake"', '"renamed"', 1))
    done = box.ctl("edit")
    assert done.returncode == exits.DONE, done.stderr
    assert "renamed" in box.ctl("list").stdout
