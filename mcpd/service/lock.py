"""The lock that decides who is the daemon."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

from mcpd.errors import AlreadyRunning, PathRefused
from mcpd.service.privatedir import MOVE_IT_AWAY, cannot, not_owned

READY = b"ready"
"""What stands after the pid when the daemon has loaded what it needs to answer."""

_ATTEMPTS = 10


class DaemonLock:
    """A file that is locked for the daemon's life.

    Invariant: whoever holds the ``flock`` on the file that stands at ``path`` is the daemon. That
    the file exists says nothing, and the pid in it only where to look: who acts on it proves first
    that this process holds the lock (``mcpd.presence``). The file is never removed, since a lock on
    a file that is no longer at its place excludes nobody.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self._is_announced = False

    @classmethod
    def acquire(cls, path: str) -> DaemonLock:
        """Take the lock without waiting, and write our pid into it.

        Raises ``AlreadyRunning`` with the holder's ``pid`` as it stands in the file, and
        ``PathRefused`` where there is no lock file of ours, nor can be one.
        """
        return cls(path, _take(path))

    def announce(self) -> None:
        """Note in the file that the daemon answers: whoever gets no answer need not wait longer."""
        self._is_announced = True
        with contextlib.suppress(OSError):  # a full disk costs somebody a wait, once
            os.pwrite(self.fd, b"%d\n%s\n" % (os.getpid(), READY), 0)

    def still_ours(self) -> bool:
        """Tell whether the file at ``path`` is still the one that we hold."""
        return _stands_at(self.path, self.fd)

    def touch(self) -> None:
        """Renew the file's times, so that nothing that cleans up takes it for forgotten."""
        os.utime(self.fd)

    def renew(self) -> None:
        """Make the file anew after it has vanished or was replaced; raise as ``acquire`` does."""
        fd = _take(self.path)
        os.close(self.fd)
        self.fd = fd
        if self._is_announced:
            self.announce()

    def release(self) -> None:
        """Let the next daemon have it; at exit, when everything else is done."""
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
    """Open a regular file that is ours alone; make it where there is none."""
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
    """Return the pid in a lock file, or ``None`` for anything that is none."""
    text = os.pread(fd, 32, 0).partition(b"\n")[0].strip()
    return int(text) if text.isdigit() and int(text) > 0 else None
