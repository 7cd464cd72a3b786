"""The ``SpawnFailed`` errors: why a command cannot be started, and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from mcpd.errors import SpawnFailed

INSTALL = {
    ("npx", "npm", "node"): "install Node.js",
    ("uvx", "uv"): "install uv (https://docs.astral.sh/uv)",
    ("bunx", "bun"): "install Bun",
    ("deno",): "install Deno",
    ("docker",): "install Docker",
    ("podman",): "install Podman",
    ("pipx",): "install pipx",
    ("python", "python3"): "install Python",
}
"""What to install when one of these commands is missing."""

_NAMED = 3
"""Directories that a message lists by name."""


def command_not_found(command: str, searched: list[str], *, is_typed: bool = False) -> SpawnFailed:
    """Return the error for a command that is in none of the directories ``searched``.

    ``is_typed`` says that it was typed after ``mcpctl connect --``.
    """
    searched = list(dict.fromkeys(searched))
    where = f"in {', '.join(searched)}" if searched else "nowhere: PATH is empty"
    if len(searched) > _NAMED:  # a whole PATH would hide the rest of the message; see `searched`
        where = f"in {counted(searched)}"
    return SpawnFailed(
        f"command not found: {command!r} (looked {where})",
        hint=_typed_hint(command) if is_typed else _missing_hint(command),
        errno=errno.ENOENT,
        searched=searched,
    )


def counted(searched: Sequence[str]) -> str:
    """Return the words for directories that are too many to list in a message."""
    return f"the {len(searched)} directories of its PATH"


def _missing_hint(command: str) -> str:
    if not command.strip():
        return "set `command` to the program to run"
    if " " in command.strip():
        first, *rest = command.split()
        return f"`command` is one program, without its arguments: {first!r}, with args = {rest!r}"
    if "/" in command:
        return "check the path; a relative one is taken from the server's `cwd`"
    install = _install_hint(command)
    known = (
        f"if `command -v {command}` in a terminal finds it, write that path as `command`, add its "
        f"directory to PATH in the server's `env`, or start the daemon from that terminal"
    )
    return f"{install}; {known}" if install else known


def _typed_hint(command: str) -> str:
    if " " in command.strip():
        return f"a program and its arguments are words of their own: mcpctl connect -- {command}"
    if "/" in command or not command:
        return "check the path; a relative one is taken from where mcpctl connect runs"
    install = _install_hint(command)
    known = (
        f"the PATH of who runs mcpctl connect counts: if `command -v {command}` in a terminal "
        f"finds it, write that path after --"
    )
    return f"{install}; {known}" if install else known


def _install_hint(command: str) -> str | None:
    return next((text for names, text in INSTALL.items() if command in names), None)


def not_executable(command: str, program: str, searched: list[str]) -> SpawnFailed:
    """Return the error for a command that was found but is not an executable file."""
    if os.path.isdir(program):
        return SpawnFailed(
            f"{program} is a directory, not a program",
            hint=f"name a program inside {program}",
            errno=errno.EISDIR,
            searched=searched,
        )
    return SpawnFailed(
        f"command {command!r} may not be run: {program} is not executable",
        hint=f"chmod +x {program}",
        errno=errno.EACCES,
        searched=searched,
    )


def cwd_missing(cwd: str) -> SpawnFailed:
    """Return the error for a working directory that does not exist or is no directory."""
    there = os.path.exists(cwd)
    return SpawnFailed(
        f"the server's cwd is not a directory: {cwd}"
        if there
        else f"the server's cwd does not exist: {cwd}",
        hint=f"set `cwd` to a directory, or: mkdir -p {cwd}" if not there else "change `cwd`",
        errno=errno.ENOTDIR if there else errno.ENOENT,
        searched=[],
    )


def exec_refused(command: str, program: str, cwd: str, error: OSError | ValueError) -> SpawnFailed:
    """Return the error for a program that was found but that the kernel did not start."""
    searched = [os.path.dirname(program)]
    if isinstance(error, ValueError):  # a NUL, a lone surrogate, a `=` in a variable's name
        return SpawnFailed(
            f"command {command!r}: its arguments or environment cannot be passed on: {error}",
            hint="look for control characters in `args` and `env`",
            errno=errno.EINVAL,
            searched=searched,
        )
    number = error.errno or 0
    what, hint = os.strerror(number), None
    if number == errno.ENOENT:
        interpreter = _interpreter(program)
        if interpreter is not None:
            what = f"its interpreter {interpreter!r} (first line of {program}) is not there"
            hint = f"install {os.path.basename(interpreter)}, or correct the first line"
        else:
            what = f"{program} was built for another system (its loader is not there)"
            hint = "install the build for this machine"
    elif number == errno.ENOEXEC:
        what = f"{program} is neither a program for this machine nor a script with a `#!` line"
        hint = "add a first line like `#!/bin/sh`, or set `command` to its interpreter"
    elif number == errno.EACCES:
        what = f"{program}, its interpreter or the directory {cwd} may not be used by this user"
        hint = f"ls -l {program}; ls -ld {cwd}"
    elif number == errno.E2BIG:
        hint = "shorten `args` or `env`"
    elif number in (errno.EMFILE, errno.ENFILE):
        hint = "raise the limit on open files (ulimit -n) and restart the daemon"
    return SpawnFailed(
        f"command {command!r} cannot be started: {what}",
        hint=hint,
        errno=number,
        searched=searched,
    )


def _interpreter(program: str) -> str | None:
    """Return the interpreter in the ``#!`` line of a script, or ``None`` if it has none."""
    try:
        with open(program, "rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    return os.fsdecode(line[2:].strip().split(None, 1)[0]) if line[2:].strip() else ""
