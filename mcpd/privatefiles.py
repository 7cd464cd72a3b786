"""Private files that are never reached through links."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_directory(path: str) -> int:
    """Return a descriptor of the private directory ``path``, made if it is missing.

    Raises ``OSError``, also when it or the directory it is in is a link, belongs to another user,
    or is writable by others. The checks are made on the descriptor that is returned.
    """
    parent, name = os.path.split(path)
    try:
        above = open_checked(parent)
    except FileNotFoundError:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        above = open_checked(parent)
    try:
        return open_below(above, name)
    finally:
        os.close(above)


def open_below(directory: int, name: str) -> int:
    """Return a descriptor of the private directory ``name`` in another, made if it is missing.

    Raises as ``open_directory`` does; the other directory is not checked.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=directory)
    return _checked(os.open(name, _DIRECTORY, dir_fd=directory), name)


def open_checked(path: str) -> int:
    """Return a descriptor of a directory that is there; raise as ``open_directory`` does.

    The directory it is in is not checked.
    """
    return _checked(os.open(path, _DIRECTORY), path)


def open_or_make(path: str) -> int:
    """Return what ``open_checked`` returns, of a directory that is made if it is missing."""
    with contextlib.suppress(FileNotFoundError):
        return open_checked(path)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return open_checked(path)


def _checked(fd: int, path: str) -> int:
    found = os.fstat(fd)
    if found.st_uid not in (os.geteuid(), 0):
        why = "the directory belongs to somebody else"
    elif found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        why = "others can write in the directory"
    else:
        return fd
    os.close(fd)
    raise PermissionError(errno.EPERM, why, path)


def open_file(name: str, flags: int, *, directory: int) -> int:
    """Return a descriptor of the regular file ``name`` in ``directory``, private where it is made.

    Raises ``OSError``, also when it is a link, a device or a pipe.
    """
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block us
    fd = os.open(name, flags, 0o600, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def replace_file(name: str, content: bytes, *, directory: int, is_durable: bool = False) -> None:
    """Replace the content of ``name`` atomically: a reader sees the old or the new one.

    If ``is_durable``, that holds after a power cut, too.
    """
    temporary = f".{name}.{os.getpid()}"
    remove(temporary, directory=directory)
    fd = open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, directory=directory)
    try:
        try:
            write_all(fd, content)
            if is_durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        if is_durable:
            _sync_names(directory)
    except OSError:
        remove(temporary, directory=directory)
        raise


def _sync_names(directory: int) -> None:
    """Have the names in a directory on the disk: else an old file may have its name again."""
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system does that
            raise


def write_all(fd: int, content: bytes) -> None:
    """Write all of ``content``; a disk that is full raises ``OSError``."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def remove(name: str, *, directory: int) -> None:
    """Remove ``name`` if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def read_private(path: str, limit: int) -> bytes:
    """Return the content of a file that only we can read and write, up to ``limit`` bytes.

    Raises ``OSError``, also when it is a link or longer; ``PermissionError`` when others can.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(errno.EPERM, "it can be read or written by others", path)
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return data


def replace_durably(path: str, content: bytes) -> None:
    """Replace a private file atomically; when this returns, a power cut does not undo it."""
    temporary = f"{path}.{os.getpid()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        directory = os.open(os.path.dirname(path) or ".", flags)
        try:
            _sync_names(directory)
        finally:
            os.close(directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def open_lock(path: str) -> int:
    """Return a descriptor of a file to lock, made if it is missing, as is its directory."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file, which other processes wait for."""
    fd = open_lock(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
