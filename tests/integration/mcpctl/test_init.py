"""``mcpctl init``: from what a machine has to servers that every client shares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpd import exits
from tests.support.daemon import Box
from tests.support.fakemanager import FakeManager
from tests.support.terminal import typed

FILES = {"command": "uvx", "args": ["x"]}


def own(home: Box) -> Path:
    return home.root / "home" / ".config" / "mcpd" / "mcp.json"


def cursor(box: Box) -> Path:
    """A client's file with one server."""
    path = box.root / "home" / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": {"files": FILES}}, indent=2))
    path.chmod(0o600)
    return path


def servers(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["mcpServers"]
    return found


def test_a_script_says_yes_to_everything_and_may_say_it_again(home: Box) -> None:
    """
    The second time there is nothing left to do.
    """
    path = cursor(home)
    told = json.loads(home.ctl("init", "--yes", "--no-service", "--json").stdout)
    assert [each["name"] for each in told["import"]["done"]] == ["files"]
    assert [each["name"] for each in told["adopt"]["done"]] == ["files"]
    assert told["service"] is None
    assert servers(own(home)) == {"files": FILES}
    assert servers(path)["files"]["args"][-2:] == ["connect", "files"]
    before = path.read_bytes(), own(home).read_bytes()
    again = home.ctl("init", "--yes", "--no-service")
    assert again.returncode == exits.DONE, again.stderr
    assert (path.read_bytes(), own(home).read_bytes()) == before


@pytest.mark.parametrize(
    ("options", "imported", "adopted"),
    [
        (["--import", "--no-adopt", "--no-service"], True, False),
        (["--no-import", "--no-adopt", "--no-service"], False, False),
        (["--no-adopt", "--no-service", "--yes"], True, False),
    ],
)
def test_each_question_has_an_option(
    home: Box, options: list[str], imported: bool, adopted: bool
) -> None:
    path = cursor(home)
    done = home.ctl("init", *options)
    assert done.returncode == exits.DONE, done.stderr
    assert own(home).exists() == imported
    assert ("connect" in path.read_text()) == adopted


@pytest.mark.parametrize("options", [[], ["--import", "--adopt"], ["--json"]])
def test_without_answers_nothing_is_changed(home: Box, options: list[str]) -> None:
    before = cursor(home).read_bytes()
    assert home.ctl("init", *options).returncode == exits.USAGE
    assert not own(home).exists()
    assert (home.root / "home" / ".cursor" / "mcp.json").read_bytes() == before


def test_a_known_server_is_added_once(home: Box) -> None:
    for _ in range(2):
        done = home.ctl("init", "--yes", "--no-service", "--preset", "time")
        assert done.returncode == exits.DONE, done.stderr
    assert list(servers(own(home))) == ["time"]


def test_what_an_empty_machine_can_type_is_below_the_reason(home: Box) -> None:
    said = home.ctl("init", "--yes", "--no-service").stderr.splitlines()
    typed_below = [line for line in said if not line.startswith("mcpctl: ")]
    assert typed_below == [
        "  mcpctl presets",
        "  mcpctl add NAME -- COMMAND",
        "  mcpctl adopt --all",
    ]


def test_enter_means_yes_to_what_was_shown_and_a_known_server_is_offered(home: Box) -> None:
    cursor(home)
    answers = {f"Write this to {own(home)}?": "", "Write this?": "n"}
    status, said = typed(home, "init", "--no-service", answers=answers)
    assert status == exits.DONE
    assert "copy these servers" in said
    assert servers(own(home)) == {"files": FILES}


def test_an_empty_machine_is_offered_known_servers(home: Box) -> None:
    answers = {"Add a known server now?": "y", "Which one?": "time", "Add another one?": "n"}
    status, _ = typed(home, "init", "--no-service", "--no-adopt", answers=answers)
    assert status == exits.DONE
    assert list(servers(own(home))) == ["time"]


@pytest.mark.parametrize("option", [[], ["--no-start"]])
def test_a_service_is_started_unless_it_is_told_not_to(home: Box, option: list[str]) -> None:
    """
    The import and the adoption before it start nothing; that is not said of the service.
    """
    cursor(home)
    manager = FakeManager(home.root / "fake")
    home.env["PATH"] = f"{manager.bin}:{home.env['PATH']}"
    del home.env["MCPD_SOCKET"]
    try:
        done = home.ctl("init", "--yes", *option)
        assert done.returncode == exits.DONE, done.stderr
        started = [line for line in manager.calls() if " start " in line or " restart " in line]
        assert bool(started) == (not option), done.stderr
        assert manager.get()["enabled"]
    finally:
        manager.close()
