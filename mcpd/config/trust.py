"""Which files may say what programs to start, and the only way to read one."""

from __future__ import annotations

import os
import pwd
import shlex
import stat

from mcpd.errors import ConfigError

SIZE_LIMIT = 4 * 1024 * 1024
"""Bytes that a configuration file stays under."""


def read(path: str) -> bytes | None:
    """Return the content of a configuration file, ``None`` where there is none.

    A link is followed: owner and mode of its target count. Raises ``ConfigError``, with the
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
        _check(path, os.fstat(fd))
        return _content(fd)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)


def _check(path: str, status: os.stat_result) -> None:
    quoted = shlex.quote(path)
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("refused: expected a regular file, or a link to one")
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"refused: it belongs to {_user(status.st_uid)}, and only you and root may say what "
            f"to run; if you trust what it says, type: sudo chown {os.geteuid()} {quoted}",
        )
    if status.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"refused: everyone can write to it, and it says what to run; type: chmod o-w {quoted}",
        )
    if status.st_size >= SIZE_LIMIT:
        raise ConfigError(_TOO_LARGE)


_TOO_LARGE = f"refused: expected less than {SIZE_LIMIT // 1024 // 1024} MiB"


def _content(fd: int) -> bytes:
    content = b""
    while chunk := os.read(fd, SIZE_LIMIT):
        content += chunk
        if len(content) >= SIZE_LIMIT:  # it grew after it was looked at
            raise ConfigError(_TOO_LARGE)
    return content


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
