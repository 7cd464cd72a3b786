"""Which files may say what programs to start, and the only way to read one."""

from __future__ import annotations

import os
import pwd
import shlex
import stat

from mcpd.errors import ConfigError

SIZE_LIMIT = 4 * 1024 * 1024
"""Bytes that a configuration file stays under."""

PRIVATE_SIZE_LIMIT = 256 * 1024
"""Likewise a file of variables; a process cannot be given many more."""


def read(path: str, *, is_private: bool = False) -> bytes | None:
    """Return the content of a configuration file, ``None`` where there is none.

    One that ``is_private`` holds secrets, and must not be read by others either. A link is
    followed: owner and mode of its target count. Raises ``ConfigError``, with the
    command to type where one helps, for a file that others could have written, that is no
    regular file or too large, and for one that cannot be read.
    """
    try:
        # Not blocking: somebody may have put a FIFO here.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    try:
        limit = PRIVATE_SIZE_LIMIT if is_private else SIZE_LIMIT
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
    """Refuse what others can read. A file of root's can be ours to read by its group alone."""
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
        if len(content) >= limit:  # it grew after it was looked at
            raise _too_large(limit)
    return content


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
