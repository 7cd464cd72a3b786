"""Which directories share what is trusted."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mcpd.projects.repository import home_of


def git(*words: object) -> None:
    subprocess.run(["git", *map(str, words)], check=True, capture_output=True)


def test_a_directory_is_a_repository_of_its_own(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    assert home_of(str(tmp_path)) == str(tmp_path)
    assert home_of(str(tmp_path / "none")) == str(tmp_path / "none")


def test_the_worktrees_of_a_repository_have_one_home(tmp_path: Path):
    main, tree = tmp_path / "main", tmp_path / "tree"
    git("init", "-q", main)
    who = ["-c", "user.name=x", "-c", "user.email=x@y"]
    git("-C", main, *who, "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", main, "worktree", "add", "-q", tree)
    assert home_of(str(main)) == home_of(str(tree)) == str(main)


def test_a_directory_that_claims_to_be_a_worktree_is_none(tmp_path: Path):
    """The repository's own pointer leads to another directory, or nowhere."""
    entry = tmp_path / "main" / ".git" / "worktrees" / "tree"
    entry.mkdir(parents=True)
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / ".git").write_text(f"gitdir: {entry}\n")
    assert home_of(str(evil)) == str(evil)
    (entry / "gitdir").write_text(f"{tmp_path}/tree/.git\n")
    assert home_of(str(evil)) == str(evil)
    (entry / "gitdir").write_text(f"{evil}/.git\n")
    assert home_of(str(evil)) == str(tmp_path / "main")


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path):
    module = tmp_path / "main" / ".git" / "modules" / "part"
    module.mkdir(parents=True)
    part = tmp_path / "main" / "part"
    part.mkdir()
    (part / ".git").write_text("gitdir: ../.git/modules/part\n")
    assert home_of(str(part)) == str(part)


def test_a_pointer_that_is_a_link_is_not_followed(tmp_path: Path):
    (tmp_path / ".git").symlink_to("/etc/hostname")
    assert home_of(str(tmp_path)) == str(tmp_path)


def test_a_pointer_that_is_no_path_leads_nowhere(tmp_path: Path):
    (tmp_path / ".git").write_bytes(b"gitdir: a\0b\n")
    assert home_of(str(tmp_path)) == str(tmp_path)
    entry = tmp_path / "main" / ".git" / "worktrees" / "tree"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_bytes(b"\0\n")
    (tmp_path / ".git").write_text(f"gitdir: {entry}\n")
    assert home_of(str(tmp_path)) == str(tmp_path)
