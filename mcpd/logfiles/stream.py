"""Writes lines to a pipe, a terminal or a file of another owner, without blocking."""

from __future__ import annotations

import contextlib
import os
import select
import stat


class Stream:
    """Writes lines to a descriptor that is not the daemon's own file.

    Invariant: writing never blocks. A terminal that is stopped and a pipe that nobody reads take
    nothing. A line that was cut is ended before the next one begins.
    """

    def __init__(self, fd: int) -> None:
        self._fd = reopen_nonblocking(fd)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._is_torn = False
        """Whether the last line that was written lacks its end."""

    def append(self, lines: list[bytes]) -> int:
        """Write lines at once; return their number, or 0 where not all of them were written."""
        data = b"".join(lines)
        try:
            is_written = bool(self._poll.poll(0)) and self._write(data)
        except OSError:  # a full disk, a full pipe, a reader that has gone
            is_written = False
        return len(lines) if is_written else 0

    def _write(self, data: bytes) -> bool:
        if self._is_torn:
            data = b"\n" + data
        written = os.write(self._fd, data)
        self._is_torn = 0 < written < len(data)
        return written == len(data)


def reopen_nonblocking(fd: int) -> int:
    """Return a non-blocking descriptor of the same pipe or terminal; other files keep theirs.

    ``O_NONBLOCK`` belongs to the open file: set on ``fd`` itself, it would also hold for every
    other process that writes there.
    """
    with contextlib.suppress(OSError):
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(fd)):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags)
    return fd
