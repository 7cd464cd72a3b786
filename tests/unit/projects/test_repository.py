"""Which directories share what is trusted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

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


def worktree(tmp_path: Path, entry: str = "main/.git/worktrees/tree") -> Path:
    """Return the file ``.git`` of a worktree, with its entry in the repository."""
    there, tree = tmp_path / entry, tmp_path / "tree"
    there.mkdir(parents=True)
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {there}\n")
    (there / "gitdir").write_text(f"{tree}/.git\n")
    return tree / ".git"


@pytest.mark.parametrize("entry", ["main/.git/modules/tree", "main/git/worktrees/tree"])
def test_only_the_entry_of_a_worktree_is_one(tmp_path: Path, entry: str):
    tree = worktree(tmp_path, entry).parent
    assert home_of(str(tree)) == str(tree)


def test_a_file_with_something_else_is_no_pointer(tmp_path: Path):
    pointer = worktree(tmp_path)
    assert home_of(str(pointer.parent)) == str(tmp_path / "main")
    pointer.write_text(pointer.read_text().removeprefix("gitdir: "))
    assert home_of(str(pointer.parent)) == str(pointer.parent)


def test_a_pointer_that_leads_to_that_of_a_worktree_is_not_followed(tmp_path: Path):
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / ".git").symlink_to(worktree(tmp_path))
    assert home_of(str(tmp_path / "evil")) == str(tmp_path / "evil")


def test_a_pipe_is_no_pointer(tmp_path: Path):
    os.mkfifo(tmp_path / ".git")
    assert home_of(str(tmp_path)) == str(tmp_path)


def test_a_pointer_of_somebody_else_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree, fstat = worktree(tmp_path).parent, os.fstat

    def owned(fd: int) -> os.stat_result:
        found = [*fstat(fd)]
        found[4] = os.geteuid() + 4242
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", owned)
    assert home_of(str(tree)) == str(tree)
