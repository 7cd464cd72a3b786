"""The lock that makes sure that there is one daemon for a socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

from mcpd.errors import AlreadyRunning, PathRefused
from mcpd.service.privatedir import MOVE_IT_AWAY, cannot, not_owned

READY = b"ready"
"""Follows the pid in the file once the daemon answers requests."""

_ATTEMPTS = 10


class DaemonLock:
    """A file that is locked while the daemon runs.

    Invariant: the daemon is the process that holds the ``flock`` on the file at ``path``. The
    file's existence means nothing, and the pid in it is only a hint: before acting on it, verify
    that this process holds the lock (``mcpd.daemon_process``). The file is never removed, because
    a lock on a file that is no longer at ``path`` excludes no other process.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self._is_announced = False

    @classmethod
    def acquire(cls, path: str) -> DaemonLock:
        """Take the lock without waiting, and write our pid into it.

        Raises ``AlreadyRunning`` with the holder's ``pid`` from the file, and ``PathRefused`` if
        the file is not ours or cannot be created.
        """
        return cls(path, _take(path))

    def announce(self) -> None:
        """Write to the file that the daemon answers; a client without an answer stops waiting."""
        self._is_announced = True
        with contextlib.suppress(OSError):  # without the note a client waits longer, once
            os.pwrite(self.fd, b"%d\n%s\n" % (os.getpid(), READY), 0)

    def still_ours(self) -> bool:
        """Return whether the file at ``path`` is still the one that we have locked."""
        return _stands_at(self.path, self.fd)

    def touch(self) -> None:
        """Update the file's times, so that programs that delete old files keep it."""
        os.utime(self.fd)

    def renew(self) -> None:
        """Create and lock the file again after it was removed or replaced.

        Raises the same errors as ``acquire``.
        """
        fd = _take(self.path)
        os.close(self.fd)
        self.fd = fd
        if self._is_announced:
            self.announce()

    def release(self) -> None:
        """Release the lock; call it last at exit, as the next daemon may start then."""
        os.close(self.fd)


def _take(path: str) -> int:
    for _ in range(_ATTEMPTS):
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _stands_at(path, fd):  # else it was replaced between open and lock
                os.fchmod(fd, 0o600)
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"%d\n" % os.getpid(), 0)
                return fd
        except BlockingIOError:
            pid = _read_pid(fd)
            os.close(fd)
            told = "another daemon runs" if pid is None else f"another daemon runs (pid {pid})"
            raise AlreadyRunning(told, hint="mcpctl status", pid=pid) from None
        except OSError as error:
            os.close(fd)
            raise cannot("lock", path, error) from None
        os.close(fd)
    raise PathRefused(f"{path} is replaced whenever mcpd locks it")


def _open(path: str) -> int:
    """Open or create a regular file that is ours and has no other name."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if os.path.islink(path):
            raise PathRefused(
                f"{path} is a link, and a lock must not be one", hint=MOVE_IT_AWAY
            ) from None
        raise cannot("open", path, error) from None
    found = os.fstat(fd)
    refusal = None
    if found.st_uid != os.geteuid():
        refusal = not_owned(path, found.st_uid)
    elif not stat.S_ISREG(found.st_mode):
        refusal = PathRefused(f"{path} is not a regular file", hint=MOVE_IT_AWAY)
    elif found.st_nlink > 1:  # of any file of ours, linked here for us to overwrite
        refusal = PathRefused(f"{path} has a second name", hint=f"rm {path}")
    if refusal is not None:
        os.close(fd)
        raise refusal
    return fd


def _stands_at(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except OSError:
        return False


def _read_pid(fd: int) -> int | None:
    """Return the pid in a lock file, or ``None`` if there is none."""
    text = os.pread(fd, 32, 0).partition(b"\n")[0].strip()
    return int(text) if text.isdigit() and int(text) > 0 else None
