"""Directories and files that a start makes: for this user alone, and never through a link."""

from __future__ import annotations

import os
import stat

from mcpd.daemon_start.unavailable import cannot_start, not_ours
from mcpd.errors import DaemonUnavailable


def make_directory(directory: str, elsewhere: str) -> None:
    """Make ``directory`` and its missing parents with mode 0700; leave an existing one as it is.

    ``elsewhere`` is the option or variable that chooses another place, for the error's hint.
    """
    parent = os.path.dirname(directory)
    try:
        above = os.stat(parent)
        if above.st_uid not in (0, os.getuid()) and not os.path.lexists(directory):
            raise not_ours(parent, above.st_uid)  # root in a user's directory
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not os.path.lexists(parent):
            make_directory(parent, elsewhere)
            make_directory(directory, elsewhere)
            return
        raise cannot_start(f"make {directory}", error, elsewhere) from None


def open_file(path: str, flags: int, elsewhere: str) -> int:
    """Open a regular file of this user, created with mode 0600 if missing; return the descriptor.

    Raises ``DaemonUnavailable`` for a link, another user's file, or a file of another type.
    """
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise cannot_start(f"open {path}", error, elsewhere) from None
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        os.close(fd)
        raise not_ours(path, found.st_uid)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise DaemonUnavailable(f"{path} is not a regular file", why="unusable", path=path)
    return fd
