"""Files of a service manager: writing them, and telling whether they were edited since."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from hashlib import sha256
from typing import Literal, NamedTuple

from mcpd.errors import PathRefused

MARK = "written by `mcpctl service install`"

State = Literal["absent", "current", "outdated", "edited", "foreign"]
"""``outdated``: unchanged since mcpctl wrote it, but its content would differ today. ``edited``:
changed since. ``foreign``: not written by mcpctl."""

_LIMIT_BYTES = 64 * 1024


class File(NamedTuple):
    """A file with the content that it should have."""

    path: str
    text: str

    def state(self) -> State:
        """Compare it with the disk. Raises ``PathRefused`` for a link or another type of file."""
        found = _read(self.path)
        if found is None:
            return "absent"
        if found == self.text:
            return "current"
        if MARK not in found:
            return "foreign"
        return "outdated" if is_untouched(found) else "edited"

    def write(self) -> None:
        """Write it atomically, with mode 0600, and not through a link."""
        directory = _open_directory(self.path)
        name = os.path.basename(self.path)
        temporary = f".{name}.{os.getpid()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o600, dir_fd=directory)
            with os.fdopen(fd, "w") as file:
                file.write(self.text)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise _cannot("write", self.path, error) from None
        finally:
            os.close(directory)

    def remove(self) -> None:
        """Remove it."""
        try:
            os.unlink(self.path)
        except OSError as error:
            raise _cannot("remove", self.path, error) from None


def signed(text: str, *, line: str = "# {}", after: int = 0) -> str:
    """Return ``text`` with a comment that has its digest, to recognise it and edits of it.

    ``line`` is the format of a comment, inserted after ``after`` lines.
    """
    lines = text.splitlines(keepends=True)
    mark = f"{MARK}: {_digest(text)}"
    return "".join([*lines[:after], line.format(mark) + "\n", *lines[after:]])


def is_untouched(text: str) -> bool:
    """Return whether a signed text matches its digest."""
    found = re.search(rf"^.*{re.escape(MARK)}: ([0-9a-f]+).*\n", text, re.MULTILINE)
    if found is None:
        return False
    return _digest(text[: found.start()] + text[found.end() :]) == found[1]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _read(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if os.path.islink(path):
            raise PathRefused(
                f"{path} is a link (to {os.readlink(path)}), and is left alone",
                hint=f"rm {path}",
                path=path,
            ) from None
        raise _cannot("read", path, error) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise PathRefused(f"{path} is not a regular file, and is left alone", path=path)
    with os.fdopen(fd, "rb") as file:
        return file.read(_LIMIT_BYTES).decode(errors="replace")


def _open_directory(path: str) -> int:
    """Return a descriptor of the directory of ``path``, created if missing."""
    directory = os.path.dirname(path)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(directory):
            raise PathRefused(
                f"{directory} is a link (to {os.readlink(directory)}), and nothing is written "
                "through it",
                hint="put there what `mcpctl service install --print` says",
                path=directory,
            ) from None
        raise _cannot("use", directory, error) from None
    if os.fstat(fd).st_uid != os.geteuid():
        os.close(fd)
        raise PathRefused(f"not yours: {directory}", path=directory)
    return fd


def _cannot(do: str, path: str, error: OSError) -> PathRefused:
    return PathRefused(f"cannot {do} {path}: {error.strerror}", path=path, errno=error.errno)
