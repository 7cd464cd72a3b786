"""Which directories are one repository: what is trusted in one of its worktrees is in all."""

from __future__ import annotations

import os

_BYTES = 4096


def home_of(directory: str) -> str:
    """Return the directory that trust is remembered for: that of the main worktree.

    ``directory`` is a real path. It is a worktree of a repository only if the repository says so,
    too: the file ``gitdir`` of its entry in ``.git/worktrees`` leads back. Anything else is a
    repository of its own.
    """
    pointer = os.path.join(directory, ".git")
    line = _line(pointer)
    if line is None or not line.startswith("gitdir: "):
        return directory
    entry = os.path.realpath(os.path.join(directory, line.removeprefix("gitdir: ")))
    worktrees, repository = os.path.dirname(entry), os.path.dirname(os.path.dirname(entry))
    if os.path.basename(worktrees) != "worktrees" or os.path.basename(repository) != ".git":
        return directory
    back = _line(os.path.join(entry, "gitdir"))
    if back is None or os.path.realpath(os.path.join(entry, back)) != os.path.realpath(pointer):
        return directory
    return os.path.dirname(repository)


def _line(path: str) -> str | None:
    """Return the path in the only line of a file of ours, ``None`` where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.fstat(fd).st_uid not in (os.geteuid(), 0):
            return None
        line = os.fsdecode(os.read(fd, _BYTES)).rstrip("\n")
        return None if "\0" in line else line
    except OSError:  # a directory: the repository itself
        return None
    finally:
        os.close(fd)
