"""Reads configuration files, and refuses those that another user could have written."""

from __future__ import annotations

import os
import pwd
import shlex
import stat

from mcpd.errors import ConfigError

SIZE_LIMIT = 4 * 1024 * 1024
"""Bytes; a configuration file must be smaller."""

PRIVATE_SIZE_LIMIT = 256 * 1024
"""Bytes; an ``env_file`` must be smaller. The kernel limits a process's environment too."""


def read(path: str, *, is_private: bool = False, limit: int = SIZE_LIMIT) -> bytes | None:
    """Return the content of a configuration file, or ``None`` if it does not exist.

    A file that ``is_private`` holds secrets, and other users must not be able to read it either. A
    link is followed; the owner and mode of its target count. Raises ``ConfigError`` for a file that
    other users could have written, that is no regular file, too large or unreadable; the message
    has the command to type where one helps.
    """
    try:
        # Not blocking: this could be a FIFO.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    try:
        limit = PRIVATE_SIZE_LIMIT if is_private else limit
        status = os.fstat(fd)
        _check(path, status, limit)
        if is_private:
            _check_private(path, status)
        elif status.st_mode & stat.S_IWOTH:
            raise ConfigError(
                "refused: everyone can write to it, and it says what to run; type: "
                f"chmod o-w {shlex.quote(path)}",
            )
        return _content(fd, limit)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)


def _check(path: str, status: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("refused: expected a regular file, or a link to one")
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"refused: it belongs to {_user(status.st_uid)}, and only you and root may say what "
            f"to run; if you trust what it says, type: sudo chown {os.geteuid()} "
            f"{shlex.quote(path)}",
        )
    if status.st_size >= limit:
        raise _too_large(limit)


def _check_private(path: str, status: os.stat_result) -> None:
    """Refuse a file that others can read. Root's file may be readable by its group, for us."""
    open_to = stat.S_IRWXG | stat.S_IRWXO
    if status.st_uid != os.geteuid():
        open_to &= ~stat.S_IRGRP
    if status.st_mode & open_to:
        raise ConfigError(
            "refused: others can read or write it, and it holds secrets; type: "
            f"chmod go= {shlex.quote(path)}"
        )


def _too_large(limit: int) -> ConfigError:
    size = f"{limit // 1024} KiB" if limit < 1024 * 1024 else f"{limit // 1024 // 1024} MiB"
    return ConfigError(f"refused: expected less than {size}")


def _content(fd: int, limit: int) -> bytes:
    content = b""
    while chunk := os.read(fd, limit):
        content += chunk
        if len(content) >= limit:  # it has grown since its size was checked
            raise _too_large(limit)
    return content


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
