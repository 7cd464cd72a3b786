"""Rules for the login shell: which one, what it is asked and answers, how ``PATH`` is merged."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from mcpd import paths
from mcpd.daemon_start.environment import is_ephemeral
from mcpd.supervise.loginenv import printenv
from mcpd.supervise.proctable import procfs

STANDARD: Final = frozenset({
    "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin",
    "/snap/bin", "/var/lib/snapd/snap/bin", "/usr/games", "/usr/local/games",
    "/usr/bin/core_perl", "/usr/bin/site_perl", "/usr/bin/vendor_perl",
    "/run/current-system/sw/bin", "/usr/lib/systemd",
    "/System/Cryptexes/App/usr/bin", "/Library/Apple/usr/bin",
})  # fmt: skip
"""Directories of a service manager's PATH; users do not install their own tools there."""

_GAMES: Final = frozenset({"/usr/games", "/usr/local/games"})

MARKER: Final = "MCPD_RESOLVING_ENV"
"""Set in the environment of the shell, so that its rc files can detect this."""

PASSED: Final = ("HOME", "PATH", "LANG", "TMPDIR", "TZ", "ZDOTDIR")
"""Variables of our environment that the shell inherits, besides every ``LC_*`` and ``XDG_*``."""

MOST_DIRECTORIES: Final = 500
MARK_BYTES: Final = 16

_NO_SHELLS: Final = frozenset({
    "nologin", "false", "true", "sync", "halt", "shutdown", "git-shell", "rssh", "scponly",
})  # fmt: skip
_C_SHELLS: Final = ("csh", "tcsh")
_KEPT_BYTES: Final = 4 * 1024 * 1024
"""The longest answer; Linux takes 2 MiB of arguments and environment, and macOS 1 MiB."""


class NotUsable(ValueError):
    """The shell gave no usable answer. The message is a clause such as "it did not answer"."""


class LoginResult(msgspec.Struct, frozen=True, kw_only=True):
    """What running the login shell means for the PATH of servers."""

    shell: str
    path: str
    """The PATH that servers get; the daemon's own after a failure."""

    added: int = 0
    """How many directories it has that the daemon's own PATH has not."""

    failure: str | None = None
    """Why the daemon's own PATH is used."""

    took_s: float = 0.0


def is_minimal(path: str | None) -> bool:
    """Return whether a PATH is a service manager's: standard directories only, or empty."""
    return all(_plain(each) in STANDARD for each in (path or "").split(os.pathsep) if each)


def shell_of(env: Mapping[str, str]) -> str | None:
    """Return the user's shell from ``SHELL`` or else the user database, or ``None``.

    ``nologin``, ``false`` and the like are no shells.
    """
    found = [env.get("SHELL", "")]
    with contextlib.suppress(KeyError):  # a container's user without an entry
        found.append(pwd.getpwuid(os.geteuid()).pw_shell)
    return next((shell for shell in found if _is_real(shell)), None)


def environment(env: Mapping[str, str], shell: str, tag: str) -> dict[str, str]:
    """Return the environment of the shell: minimal, and without variables of a terminal."""
    kept = {
        name: value
        for name, value in env.items()
        if name in PASSED or name.startswith(("LC_", "XDG_"))
    }
    user = _user(env)
    return {
        **kept,
        "HOME": paths.home(env),
        "USER": user,
        "LOGNAME": user,
        "SHELL": shell,
        "TERM": "dumb",
        MARKER: "1",
        procfs.TAG: tag,
    }


def command_lines(shell: str, mark: str, fd: int) -> list[list[str]]:
    """Return the command lines to try for a shell, the best first.

    The first is interactive, because version managers are set up in ``.bashrc`` and its like. A
    bash that is a login shell does not read that file, so it runs a second, interactive bash. The
    second command line is not interactive, for rc files that start another program in a terminal.
    """
    words = (sys.executable, "-I", "-S", os.path.abspath(printenv.__file__), mark, str(fd))
    command = " ".join(map(shlex.quote, words))
    name = os.path.basename(shell)
    if name in _C_SHELLS:  # they take -l alone or not at all
        return [[shell, "-i", "-c", command], [shell, "-c", command]]
    within = f"exec {shlex.join((shell, '-i', '-c', command))}" if name == "bash" else command
    return [[shell, "-l", "-i", "-c", within], [shell, "-l", "-c", command]]


class AnswerParser:
    """Finds the text between two marks in the output of a shell; drops everything else."""

    def __init__(self, mark: str) -> None:
        self._mark = printenv.encoded(mark)
        self._buffer = b""

    def feed(self, data: bytes) -> str | None:
        """Add bytes of the output; return the text between the marks once both have been read."""
        self._buffer += data
        before, found, rest = self._buffer.partition(self._mark)
        if not found:
            self._buffer = before[-len(self._mark) :]
            return None
        answer, found, _ = rest.partition(self._mark)
        if found:
            return os.fsdecode(answer)
        self._buffer = (self._mark + rest)[:_KEPT_BYTES]
        return None


def variables(answer: str) -> dict[str, str]:
    """Return the variables in an answer, without those that belong to the shell that was run."""
    pairs = (variable.partition("=") for variable in answer.split("\0"))
    found = {name: value for name, _, value in pairs if name and not is_ephemeral(name)}
    found.pop(MARKER, None)
    return found


def merge(login_path: str, own: str | None) -> tuple[str, int]:
    """Return the login shell's PATH followed by ours, and how many directories that adds to ours.

    Only absolute directories count. If none is added, ours is returned unchanged. Reads the file
    system. Raises ``NotUsable``.
    """
    login = list(_directories(login_path.split(os.pathsep)))
    if not any(os.path.isdir(each) for each in login[:MOST_DIRECTORIES]):
        raise NotUsable("it names no directory that is there")
    if len(login) > MOST_DIRECTORIES:
        raise NotUsable(f"it names more than {MOST_DIRECTORIES} directories")
    ours = (own or "").split(os.pathsep) if own else []
    known = {_plain(each) for each in ours} | _GAMES
    added = sum(_plain(each) not in known for each in login)
    if not added:
        return own or os.pathsep.join(login), 0
    return os.pathsep.join(dict.fromkeys([*login, *_directories(ours)])), added


def _directories(words: Iterable[str]) -> dict[str, None]:
    """Return the absolute directories in order, without duplicates."""
    return {_plain(word): None for word in words if word.startswith("/") and word.isprintable()}


def _plain(directory: str) -> str:
    return directory.rstrip("/") or "/"


def _is_real(shell: str) -> bool:
    return (
        shell.startswith("/")
        and os.path.basename(shell) not in _NO_SHELLS
        and os.path.isfile(shell)
        and os.access(shell, os.X_OK)
    )


def _user(env: Mapping[str, str]) -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return env.get("USER") or str(os.geteuid())
