"""Replaces a file while other programs may write it: the old one whole, or the new one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from mcpd import paths, privatefiles
from mcpd.errors import ConfigError

SIZE_LIMIT: Final = 32 * 1024 * 1024
"""Bytes; a file that is edited must be smaller."""

TRIES: Final = 100
"""Reads of a file that others change again and again, ``PAUSE`` apart."""

PAUSE: Final = 0.05
"""Seconds between two reads, so that a program that is writing gets to the end."""

LOCK_WAIT: Final = 30.0
"""Seconds for which another process of ours may hold the lock of a file."""

Edit = Callable[[bytes | None], bytes | None]

_EXCHANGE = 2
_NO_REPLACE = 1
_AT_FDCWD = -100


def change(path: str, edit: Edit, *, mode_of_new: int = 0o600, private: bool = False) -> bool:
    """Replace the content of a file by what ``edit`` makes of it; return whether it changed.

    ``edit`` gets the content, or ``None`` where there is no file, and returns the new one; for
    ``None`` or the same content nothing is written. It is called several times: before and with the
    lock, and again when the file has changed meanwhile, also after it has raised. A link goes on
    leading to the file that is replaced. Mode and owner stay; a ``private`` file that is written
    gets the mode 0600, and a new one ``mode_of_new``. When this returns, a power cut does not undo
    the change. A process that is killed meanwhile leaves the old file or the new one.

    Raises:
        ConfigError: by ``edit``; or the file cannot be read or written, or does not stop changing.
    """
    target = os.path.realpath(path)
    try:
        if not _is_wanted(*_edited(target, edit)):
            return False
        with _locked(target):
            _remove_leftovers(target)
            for _ in range(TRIES):
                found, new = _edited(target, edit)
                if not _is_wanted(found, new):
                    return False
                assert new is not None  # it would not be wanted
                mode = stat.S_IMODE(found.status.st_mode) if found.status else mode_of_new
                if _replaced(target, found, new, 0o600 if private else mode):
                    return True
                time.sleep(PAUSE)
    except OSError as error:
        raise ConfigError(_why(path, target, error)) from error
    raise ConfigError(
        f"{path} does not stop changing",
        hint="close the program that writes it, then try again",
    )


class _Found(NamedTuple):
    """What a file held when it was read; both are ``None`` where there was none."""

    content: bytes | None
    status: os.stat_result | None


def _edited(target: str, edit: Edit) -> tuple[_Found, bytes | None]:
    """Return a file and what is made of it, which may take until another program has written it."""
    for left in reversed(range(TRIES)):
        found = _read(target)
        try:
            return found, edit(found.content)
        except ConfigError:
            time.sleep(PAUSE)
            if left == 0 or _read(target).content == found.content:
                raise
    raise AssertionError  # the last try returns or raises


def _is_wanted(found: _Found, new: bytes | None) -> bool:
    return new is not None and new != found.content


def _read(path: str) -> _Found:
    try:  # not blocking: this could be a FIFO
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return _Found(None, None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: expected a regular file, or a link to one")
        content = file.read(SIZE_LIMIT + 1)
    if len(content) > SIZE_LIMIT:
        raise ConfigError(f"{path}: expected less than {SIZE_LIMIT // 1024 // 1024} MiB")
    return _Found(content, status)


def _replaced(target: str, found: _Found, new: bytes, mode: int) -> bool:
    """Put a new file in the place of the one that was found; return whether that still stood."""
    if found.status is None:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    with _beside(target) as (temporary, fd):
        privatefiles.write_all(fd, new)
        if found.status is not None:
            _copy_owner(fd, found.status)
        os.fchmod(fd, mode)
        os.fsync(fd)
        if _read(target).content != found.content:
            return False
        is_ours = _placed(temporary, target, found.content, new)
        _sync_directory(target)
        late = _read(temporary).content if is_ours and found.content is not None else None
        if late is not None and late != found.content:
            # Another program had opened the old file before, and has only now written it.
            _placed(temporary, target, new, late)
            is_ours = False
    return is_ours


def _sync_directory(target: str) -> None:
    with contextlib.suppress(OSError):  # not every file system can, and the file is there
        directory = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _placed(temporary: str, target: str, old: bytes | None, new: bytes) -> bool:
    """Rename a file over another, unless that is no longer ``old``; return whether it was.

    Where the system can exchange two files, what another program writes at the last moment is seen
    afterwards, and gets its place back.
    """
    if old is None:
        try:
            _rename(temporary, target, _NO_REPLACE)
        except FileExistsError:
            return False
        return True
    is_ours = True
    try:
        while _rename(temporary, target, _EXCHANGE):
            taken = _read(temporary).content
            if taken == old:
                return is_ours
            # It was written meanwhile, and is newer than what stands there now.
            old, new, is_ours = new, taken or b"", False
    except FileNotFoundError:  # removed by another program, or by its user
        return False
    return True


def _rename(source: str, target: str, flags: int) -> bool:
    """Rename with flags of ``renameat2``; return ``False`` after a plain one, without them."""
    number = _renameat2(source, target, flags)
    if number == 0:
        return True
    if number not in (errno.ENOSYS, errno.EINVAL):
        raise OSError(number, os.strerror(number), target)
    if flags == _NO_REPLACE and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)
    return False


def _renameat2(source: str, target: str, flags: int) -> int:
    """Call the function of Linux; return 0 or the number of the error."""
    import ctypes  # only what writes pays for it

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return errno.ENOSYS
    failed = function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags)
    return ctypes.get_errno() if failed else 0


@contextlib.contextmanager
def _beside(target: str) -> Iterator[tuple[str, int]]:
    """Make a private file beside another, locked while we live, and remove what is left of it."""
    path = _prefix(target) + os.urandom(4).hex()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield path, fd
    finally:
        os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _remove_leftovers(target: str) -> None:
    """Remove the files that a killed process of ours has left beside a file."""
    directory, prefix = os.path.split(_prefix(target))
    try:
        names = os.listdir(directory)
    except OSError:  # missing, or not to be listed: then nothing can be found in it
        return
    for name in names:
        if name.startswith(prefix):
            with contextlib.suppress(OSError):  # a living one has the lock
                fd = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(f"{directory}/{name}")
                finally:
                    os.close(fd)


def _prefix(target: str) -> str:
    directory, name = os.path.split(target)
    return f"{directory}/.mcpd-{_hash(name)}-"


def _copy_owner(fd: int, status: os.stat_result) -> None:
    if not _is_same_owner(os.fstat(fd), status):
        os.fchown(fd, status.st_uid, status.st_gid)


def _is_same_owner(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_uid, one.st_gid) == (other.st_uid, other.st_gid)


@contextlib.contextmanager
def _locked(target: str) -> Iterator[None]:
    """Hold our lock of a file, which is not beside it; the kernel ends it with its process."""
    lock = f"{paths.state_dir()}/locks/{_hash(target)}"
    try:
        fd = privatefiles.open_lock(lock)
    except OSError as error:
        raise ConfigError(f"cannot make the lock {lock}: {error.strerror}") from error
    try:
        give_up_at = time.monotonic() + LOCK_WAIT
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise ConfigError(f"{target} is being edited by another mcpctl") from None
                time.sleep(PAUSE / 5)
        yield
    finally:
        os.close(fd)


def _why(path: str, target: str, error: OSError) -> str:
    at = "" if path == target else f" ({target})"
    match error.errno:
        case errno.EROFS:
            why = "the file system is read-only"
        case errno.ENOSPC | errno.EDQUOT:
            why = "the disk is full"
        case errno.EPERM:
            why = "its owner and group cannot be kept"
        case errno.EACCES if error.filename and os.path.isdir(os.path.dirname(error.filename)):
            why = f"{os.path.dirname(error.filename)} cannot be written to"
        case _:
            why = error.strerror or str(error)
    return f"cannot change {path}{at}: {why}"


def _hash(text: str) -> str:
    return sha256(os.fsencode(text)).hexdigest()[:16]
