"""The daemon's socket file: made, looked after, removed."""

from __future__ import annotations

import os
import socket
import stat

from mcpd.errors import AlreadyRunning, PathRefused
from mcpd.service.lock import DaemonLock
from mcpd.service.privatedir import MOVE_IT_AWAY, cannot, not_owned

BACKLOG = 512
"""Connections the kernel keeps until they are accepted: more clients than start at one moment."""

CONNECT_TIMEOUT_S = 1.0

Identity = tuple[int, int]
"""Device and inode of a socket file."""


def bind_socket(path: str, lock: DaemonLock) -> socket.socket:
    """Return a socket that listens on ``path``, mode 0600 from its first instant, non-blocking.

    ``lock`` must be held: only under it may a socket that refuses connections be taken for a dead
    daemon's and be replaced. Anything else in its place is left alone and raises ``PathRefused``;
    a listener that answers raises ``AlreadyRunning``.
    """
    if not lock.still_ours():
        raise PathRefused(f"{lock.path} was replaced while mcpd held it")
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
    """Return which file stands at ``path``, links not followed; ``None`` if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def still_ours(path: str, identity: Identity | None) -> bool:
    """Tell whether the socket file at ``path`` is still the one that ``identity`` names."""
    return identity is not None and identity_of(path) == identity


def touch(path: str) -> None:
    """Renew the file's times, so that nothing that cleans up takes it for forgotten."""
    os.utime(path, follow_symlinks=False)


def remove_socket(path: str, identity: Identity | None) -> bool:
    """Remove the socket file if it is still ours, and tell whether it was.

    Hold the lock, and close the listener afterwards: while it is open no other file can get the
    same inode.
    """
    if not still_ours(path, identity):
        return False
    os.unlink(path)
    return True


def _clear(path: str) -> None:
    """Remove a dead daemon's socket, and nothing else."""
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
    """Tell whether a connection is refused; raise if somebody listens or nobody can tell."""
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
