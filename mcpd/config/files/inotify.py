"""A thin wrapper of ``inotify(7)``: Linux reports changes of files and directories."""

from __future__ import annotations

import ctypes
import os
import struct

IN_MODIFY = 0x0002
IN_ATTRIB = 0x0004
IN_CLOSE_WRITE = 0x0008
IN_MOVED_FROM = 0x0040
IN_MOVED_TO = 0x0080
IN_CREATE = 0x0100
IN_DELETE = 0x0200
IN_DELETE_SELF = 0x0400
IN_MOVE_SELF = 0x0800
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000

CONTENT = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF
"""Events of a file: it was written, its mode or owner changed, it was removed or moved."""

NAMES = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF
"""Events of a directory: names in it were added or removed."""

SELF = IN_DELETE_SELF | IN_MOVE_SELF
"""Events of a directory: it was itself removed or moved."""

_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 65536


class Inotify:
    """One non-blocking inotify descriptor with its watches.

    Creating it raises ``OSError`` if the machine's limit on instances is reached.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._names: dict[int, frozenset[bytes]] = {}
        self.is_stale = False
        """Whether a watch has ended or events were lost, so that all watches must be renewed."""

    def add(self, path: str, mask: int, names: frozenset[str]) -> None:
        """Watch a file, or ``names`` in a directory; do nothing if the path does not exist.

        The caller must not add an inode twice: the second mask would replace the first.
        """
        try:
            watch = self._call("inotify_add_watch", self.fd, os.fsencode(path), mask)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        self._names[watch] = frozenset(map(os.fsencode, names))

    def read(self) -> bool:
        """Read all pending events; return whether one concerns a watched file or name."""
        matters = False
        while True:
            try:
                data = os.read(self.fd, _BUFFER_BYTES)
            except BlockingIOError:
                return matters
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                name = data[at : at + length].rstrip(b"\0")
                at += length
                self.is_stale |= bool(mask & (IN_IGNORED | IN_Q_OVERFLOW | SELF))
                matters |= not name or name in self._names.get(watch, ())

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)

    def _call(self, function: str, *arguments: int | bytes) -> int:
        result: int = getattr(self._libc, function)(*arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
