"""Credentials of the process at the other end of a Unix socket, from the kernel."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Protocol

import msgspec

_LOCAL_LEVEL = 0  # SOL_LOCAL of <sys/un.h>; the names are not in Python's socket module
_LOCAL_PEERCRED = 1
_LOCAL_PEERPID = 2
_XUCRED = struct.Struct("@IIh16I")  # version, uid, number of groups, groups
_UCRED = struct.Struct("@iII")  # pid, uid, gid


class Peer(msgspec.Struct, frozen=True):
    """The process that connected."""

    pid: int | None
    """``None`` where the system has none, or for a process of another pid namespace."""

    uid: int
    gid: int


class HasSocketOptions(Protocol):
    """A socket, or the wrapper that asyncio has for one."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


def credentials(connection: HasSocketOptions) -> Peer:
    """Return the credentials of the peer as it connected.

    Raises ``OSError`` if the peer has closed the connection already.
    """
    if sys.platform == "darwin":
        raw = connection.getsockopt(_LOCAL_LEVEL, _LOCAL_PEERCRED, _XUCRED.size)
        _version, uid, _count, gid, *_groups = _XUCRED.unpack(raw)
        (pid,) = struct.unpack("@i", connection.getsockopt(_LOCAL_LEVEL, _LOCAL_PEERPID, 4))
    else:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, uid, gid = _UCRED.unpack(raw)
    return Peer(pid=pid or None, uid=uid, gid=gid)


def is_allowed(peer: Peer) -> bool:
    """Tell whether the daemon serves the peer's user: its own user, or root."""
    return peer.uid in (os.geteuid(), 0)
