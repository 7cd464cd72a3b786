"""Reading stdin and writing stdout and sockets without blocking: pipes, terminals, files.

``O_NONBLOCK`` belongs to the open file, which other processes share: the shell of a terminal, the
client. So it is never set on an inherited descriptor. Pipes and terminals are opened again, which
gives them flags of their own; sockets take a flag for each call. Files and devices like
``/dev/null`` never block, and are not opened again because their offset must stay shared. A pipe
that cannot be opened again (another user's, or without ``/proc``) is written to only when poll
reports it ready, by no more than a ready pipe takes.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections import deque
from functools import partial
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Buffer = bytes | memoryview

READ_BYTES = 1 << 16
BUFFERS = 64  # at most 1024 in one call


class Source:
    """Reads what the client writes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._connection: socket.socket | None = None
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            self._connection = socket.socket(fileno=os.dup(fd))
            self.fd = self._connection.fileno()
        elif stat.S_ISFIFO(mode) or os.isatty(fd):
            self.fd = _opened_again(fd, os.O_RDONLY) or fd

    def read(self) -> bytes | None:
        """Return the next bytes, ``b""`` at the end of input, ``None`` if there are none yet."""
        try:
            if self._connection is None:
                return os.read(self.fd, READ_BYTES)
            return self._connection.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # a terminal that hung up, a connection that was reset


class Outbox:
    """Bytes that wait to be written to one reader."""

    def __init__(
        self,
        fd: int,
        write: Callable[[Buffer], int],
        write_all: Callable[[list[Buffer]], int],
        *,
        is_eager: bool,
    ) -> None:
        self.fd = fd
        self.size = 0
        """Bytes that wait."""

        self._write = write
        self._write_all = write_all
        self._is_eager = is_eager
        self._chunks: deque[Buffer] = deque()

    def put(self, chunks: list[bytes]) -> None:
        """Append chunks, without writing."""
        self._chunks.extend(chunks)
        self.size += sum(map(len, chunks))

    def flush(self, *, is_ready: bool = False) -> None:
        """Write what the reader takes without blocking. ``is_ready``: poll has reported it ready.

        Raises ``OSError``, such as ``BrokenPipeError``, but not ``BlockingIOError``.
        """
        while self.size and (is_ready or self._is_eager):
            chunks = self._chunks
            try:
                if len(chunks) == 1:
                    written = self._write(chunks[0])
                else:
                    written = self._write_all(list(islice(chunks, BUFFERS)))
            except BlockingIOError:
                return
            if written == self.size:
                chunks.clear()
                self.size = 0
                return
            self._drop(written)
            is_ready = False

    def _drop(self, written: int) -> None:
        self.size -= written
        while written:
            first = self._chunks.popleft()
            if len(first) > written:
                self._chunks.appendleft(memoryview(first)[written:])
                return
            written -= len(first)

    def clear(self) -> None:
        """Drop what waits."""
        self._chunks.clear()
        self.size = 0


def to_socket(connection: socket.socket) -> Outbox:
    """Return an outbox for a connected socket, whose flags are not changed."""

    def write(buffer: Buffer) -> int:
        return connection.send(buffer, socket.MSG_DONTWAIT)

    def write_all(buffers: list[Buffer]) -> int:
        return connection.sendmsg(buffers, (), socket.MSG_DONTWAIT)

    return Outbox(connection.fileno(), write, write_all, is_eager=True)


def to_client(fd: int) -> Outbox:
    """Return an outbox for stdout, be it a pipe, a terminal, a socket or a file."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        return to_socket(socket.socket(fileno=os.dup(fd)))
    if stat.S_ISFIFO(mode) or os.isatty(fd):
        own = _opened_again(fd, os.O_WRONLY)
        if own is None:
            return Outbox(fd, _little(fd), lambda buffers: _little(fd)(buffers[0]), is_eager=False)
        fd = own
    return Outbox(fd, partial(os.write, fd), partial(os.writev, fd), is_eager=True)


def _little(fd: int) -> Callable[[Buffer], int]:
    """Return a function that writes no more than a pipe takes once poll has reported it ready."""
    return lambda buffer: os.write(fd, buffer[: select.PIPE_BUF])


def open_standard_descriptors() -> None:
    """Open ``/dev/null`` where 0, 1 or 2 is closed, so that no socket gets that number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def report(text: str) -> None:
    """Write a message to stderr, unless that would block."""
    if os.isatty(2):
        text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    left = f"mcpctl: {text}\n".encode(errors="backslashreplace")
    try:
        while left and poll.poll(0):  # a ready pipe takes PIPE_BUF bytes, and more may block
            left = left[os.write(2, left[: select.PIPE_BUF]) :]
    except OSError:
        return


def _opened_again(fd: int, access: int) -> int | None:
    flags = access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return None
