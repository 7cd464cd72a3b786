"""What a session works in."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpd.projects.workspace import MOST_PARENTS, ROOT_CHARACTERS, WORKSPACE_MARKS, workspace_of


def test_the_first_root_is_the_workspace(tmp_path: Path) -> None:
    roots = ("https://x/y", "file:///a%20b/c/", "file:///d")
    assert workspace_of(roots, str(tmp_path)) == "/a b/c"


@pytest.mark.parametrize("mark", [".git", ".hg", ".mcp.json"])
def test_without_roots_it_is_the_nearest_project(tmp_path: Path, mark: str) -> None:
    deep = tmp_path / "project" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "project" / mark).touch()
    assert workspace_of((), f"{deep}/../b") == str(tmp_path / "project")


def test_without_a_project_it_is_where_the_client_is(tmp_path: Path) -> None:
    assert workspace_of((), str(tmp_path)) == str(tmp_path)


def test_the_home_directory_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Many keep their dotfiles in a repository there.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "x").mkdir()
    assert workspace_of((), str(tmp_path / "x")) == str(tmp_path / "x")


def test_a_client_without_a_directory_has_no_workspace() -> None:
    assert workspace_of((), None) is None


def test_the_root_directory_is_no_workspace() -> None:
    """
    B034: clients that a desktop has started are there.
    """
    assert workspace_of((), "/") is None
    assert workspace_of(("file:relative", "file://[", "file:///a%00b"), "//") is None
    assert workspace_of(("file:///",), "/x") == "/"


def test_the_search_for_a_project_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A client that was in 4 million directories, one in the other, had the daemon hang for ever.
    """
    looked: list[str] = []
    monkeypatch.setattr("os.path.lexists", lambda path: looked.append(str(path)))
    deep = "/a" * 2000
    assert workspace_of((), deep) == deep
    assert len(looked) <= MOST_PARENTS * len(WORKSPACE_MARKS)


def test_a_root_that_is_longer_than_any_path_is_ignored() -> None:
    assert workspace_of(("file://" + "/a" * ROOT_CHARACTERS,), "/work") == "/work"
