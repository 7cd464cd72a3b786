"""A project as a person looks at it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpd.projects import kept
from mcpd.projects.look import NOT_SHOWN, Look, look, workspace_at


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project below the home directory, and the user's own server ``git``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = tmp_path / "shop"
    made.mkdir(mode=0o755)
    for place in (tmp_path, made):
        place.chmod(0o755)
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"git": {"command": "x"}}}')
    return made


def see(folder: Path, **entry: object) -> Look:
    if entry:
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"git": entry}}))
    home = folder.parent
    config = str(home / "mcp.json")
    return look(str(folder), state_dir=str(home), config=config, env={"HOME": str(home)})


def trust(seen: Look, folder: Path) -> None:
    path = kept.path_in(str(folder.parent))
    offers = seen.project.offers.values()
    kept.trust(path, seen.project.home, kept.answers(offers, seen.project.directory))


def test_it_says_whose_server_is_replaced(folder: Path):
    seen = see(folder, command="serve")
    assert seen.untrusted() == ["git"]
    assert seen.untrusted(["other"]) == []
    assert seen.where("git") == ".mcp.json:1"
    assert seen.shown("git")[-1] == "replaces your server git in this project"
    (entry,) = seen.document()["entries"]
    assert (entry["state"], entry["replaces"], entry["variables"]) == ("untrusted", True, [])


def test_a_change_is_shown_as_a_difference(folder: Path):
    trust(see(folder, command="serve", args=["a"], env={"X": "1"}), folder)
    assert see(folder).untrusted() == []
    shown = see(folder).shown("git")
    assert shown[0] == "runs serve a"
    assert NOT_SHOWN not in shown
    lines = see(folder, command="serve", args=["b"], env={"X": "1"}).shown("git")
    assert "+ runs serve b" in lines
    assert "- runs serve a" in lines
    assert "sets X=1" in lines


def test_a_change_that_no_line_shows_is_said(folder: Path):
    trust(see(folder, command="serve", args=["a"]), folder)
    assert NOT_SHOWN in see(folder, command="serve", args=["a", 1]).shown("git")


def test_a_directory_with_such_files_is_a_workspace_of_its_own(folder: Path):
    (folder / ".git").mkdir()
    below = folder / "part"
    below.mkdir()
    assert workspace_at(str(below)) == str(folder)
    (below / ".vscode").mkdir()
    (below / ".vscode" / "mcp.json").write_text("{}")
    assert workspace_at(str(below)) == str(below)
