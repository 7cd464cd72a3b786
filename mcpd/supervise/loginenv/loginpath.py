"""When the PATH of the user's login shell is wanted, which shell that is, what of it is used."""

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
from mcpd.supervise.loginenv import printpath
from mcpd.supervise.proctable import procfs

STANDARD: Final = frozenset({
    "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin",
    "/snap/bin", "/var/lib/snapd/snap/bin", "/usr/games", "/usr/local/games",
    "/usr/bin/core_perl", "/usr/bin/site_perl", "/usr/bin/vendor_perl",
    "/run/current-system/sw/bin", "/usr/lib/systemd",
    "/System/Cryptexes/App/usr/bin", "/Library/Apple/usr/bin",
})  # fmt: skip
"""Directories that a service manager's PATH is made of; nobody's own tools are in them."""

_GAMES: Final = frozenset({"/usr/games", "/usr/local/games"})

MARKER: Final = "MCPD_RESOLVING_ENV"
"""Set in the shell that is asked, so that its rc files can tell."""

PASSED: Final = ("HOME", "PATH", "LANG", "TMPDIR", "TZ", "ZDOTDIR")
"""What the shell gets of our environment, besides every ``LC_*`` and ``XDG_*``."""

MOST_DIRECTORIES: Final = 500
MARK_BYTES: Final = 16

_NO_SHELLS: Final = frozenset({
    "nologin", "false", "true", "sync", "halt", "shutdown", "git-shell", "rssh", "scponly",
})  # fmt: skip
_C_SHELLS: Final = ("csh", "tcsh")
_KEPT_BYTES: Final = 256 * 1024


class NotUsable(ValueError):
    """What a shell says is no PATH; the message completes "…: " for people."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking a shell."""

    shell: str
    path: str
    """The whole PATH to be used; the daemon's own where there is nothing better."""

    added: int = 0
    """How many directories it has that the daemon's own has not."""

    failure: str | None = None
    """Why the daemon's own has to do."""

    took_s: float = 0.0


def is_minimal(path: str | None) -> bool:
    """Say whether a PATH is what a service manager gives: standard directories, or nothing."""
    return all(_plain(each) in STANDARD for each in (path or "").split(os.pathsep) if each)


def shell_of(env: Mapping[str, str]) -> str | None:
    """Return the user's shell: ``SHELL``, else the user database's; ``None`` if it is none.

    ``nologin``, ``false`` and the like say that nobody is to log in there.
    """
    found = [env.get("SHELL", "")]
    with contextlib.suppress(KeyError):  # a container's user without an entry
        found.append(pwd.getpwuid(os.geteuid()).pw_shell)
    return next((shell for shell in found if _is_real(shell)), None)


def environment(env: Mapping[str, str], shell: str, tag: str) -> dict[str, str]:
    """Return what the shell that is asked is started with: little, and nothing of a terminal."""
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


def attempts(shell: str, mark: str, fd: int) -> list[list[str]]:
    """Return the command lines by which a shell is asked, the best first.

    Interactive, because version managers live in ``.bashrc`` and its like. A bash that is a login
    shell does not read that by itself, so there a second one within the first does, as in a
    terminal. The other command line is for rc files that become another program when they think
    that somebody is there.
    """
    words = (sys.executable, "-I", "-S", os.path.abspath(printpath.__file__), mark, str(fd))
    command = " ".join(map(shlex.quote, words))
    name = os.path.basename(shell)
    if name in _C_SHELLS:  # they take -l alone or not at all
        return [[shell, "-i", "-c", command], [shell, "-c", command]]
    within = f"exec {shlex.join((shell, '-i', '-c', command))}" if name == "bash" else command
    return [[shell, "-l", "-i", "-c", within], [shell, "-l", "-c", command]]


class Answer:
    """What a shell writes, until the answer is in it; whatever else it says is forgotten."""

    def __init__(self, mark: str) -> None:
        self._mark = printpath.written(mark)
        self._heard = b""

    def feed(self, data: bytes) -> str | None:
        """Take some bytes; return what is between the marks once both are there."""
        self._heard += data
        before, found, rest = self._heard.partition(self._mark)
        if not found:
            self._heard = before[-len(self._mark) :]
            return None
        told, found, _ = rest.partition(self._mark)
        if found:
            return os.fsdecode(told)
        self._heard = (self._mark + rest)[:_KEPT_BYTES]
        return None


def merged(told: str, own: str | None) -> tuple[str, int]:
    """Return the PATH that comes of a login shell's and our own, and how much it has over ours.

    The shell's comes first, what only ours has at its end. Only absolute directories count; one
    that adds nothing leaves ours as it is. Raises ``NotUsable``. Looks at the file system.
    """
    login = list(_directories(told.split(os.pathsep)))
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
    """Return the absolute ones in order, each once."""
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
