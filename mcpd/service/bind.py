"""The daemon's socket file: created, checked, removed."""

from __future__ import annotations

import os
import socket
import stat

from mcpd.errors import AlreadyRunning, PathRefused
from mcpd.service.lock import DaemonLock
from mcpd.service.privatedir import MOVE_IT_AWAY, cannot, not_owned

BACKLOG = 512
"""Connections that the kernel queues until they are accepted."""

CONNECT_TIMEOUT_S = 1.0

Identity = tuple[int, int]
"""Device and inode of a socket file."""


def bind_socket(path: str, lock: DaemonLock) -> socket.socket:
    """Return a non-blocking socket that listens on ``path``, created with mode 0600.

    ``lock`` must be held: only then is a socket that refuses connections that of a dead daemon, and
    may be replaced. Raises ``PathRefused`` for any other file at ``path``, and ``AlreadyRunning``
    if a process listens on it.
    """
    if not lock.still_ours():
        raise PathRefused(f"{lock.path} was replaced while mcpd held it")
    return listen_on(path)


def listen_on(path: str) -> socket.socket:
    """Return a non-blocking socket that listens on ``path``, created with mode 0600.

    A socket that refuses connections is replaced. Raises ``PathRefused`` for any other file, and
    ``AlreadyRunning`` if a process listens on it.
    """
    _clear(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise cannot("listen on", path, error) from None
    finally:
        os.umask(umask)
    listener.setblocking(False)
    return listener


def identity_of(path: str) -> Identity | None:
    """Return the identity of the file at ``path`` without following links, or ``None``."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def still_ours(path: str, identity: Identity | None) -> bool:
    """Return whether the socket file at ``path`` still has this identity."""
    return identity is not None and identity_of(path) == identity


def touch(path: str) -> None:
    """Update the file's times, so that programs that delete old files keep it."""
    os.utime(path, follow_symlinks=False)


def remove_socket(path: str, identity: Identity | None) -> bool:
    """Remove the socket file if it is still ours; return whether it was.

    Hold the lock, and close the listener afterwards: while it is open no other file can get the
    same inode.
    """
    if not still_ours(path, identity):
        return False
    os.unlink(path)
    return True


def _clear(path: str) -> None:
    """Remove the socket of a dead daemon; raise for any other file."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot("look at", path, error) from None
    if not stat.S_ISSOCK(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "not a socket"
        raise PathRefused(
            f"{path} is {kind}, and is left alone",
            hint=MOVE_IT_AWAY,
        )
    if found.st_uid != os.geteuid():
        raise not_owned(path, found.st_uid)
    if _is_dead(path):
        remove_socket(path, (found.st_dev, found.st_ino))


def _is_dead(path: str) -> bool:
    """Return whether a connection is refused; raise if a process listens or it is unknown."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_TIMEOUT_S)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except FileNotFoundError:
            return False
        except OSError as error:
            why = error.strerror or "no answer"
            raise PathRefused(
                f"{path} is there, and whether somebody listens on it cannot be told: {why}",
                hint=MOVE_IT_AWAY,
                errno=error.errno,
            ) from None
    told = f"somebody listens on {path} without holding its lock"
    raise AlreadyRunning(told, hint="mcpctl doctor", pid=None)
