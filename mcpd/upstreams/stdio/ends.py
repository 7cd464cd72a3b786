"""The ends of a process's pipes, as asyncio protocols."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from mcpd import tasks
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame, Framer, Oversized, has_many_lines
from mcpd.upstreams.run import Frames

FEW_LINES = 32
"""Lines in one read that are handled at once. If there are more, other peers have turns between."""

SLICE_BYTES = 16 * 1024
"""Bytes handled in one step of such a turn."""

REST_BYTES = 64 * 1024
"""Bytes in one read after which other peers have a turn. libuv reads up to 32 times in a row from
one descriptor, and a large message comes as fast as it is read."""

TELLS_UNREAD = sys.platform == "linux"
"""Whether the writing end of a pipe shows how many bytes are in it."""


def _drop(_frame: Frame | Oversized) -> None:
    """Drop a frame of a server that is being stopped."""


def unread_in(pipe: io.FileIO | None) -> int:
    """Return how many bytes are in a pipe."""
    waiting = bytearray(4)
    if pipe is not None and not pipe.closed:
        with contextlib.suppress(OSError):
            fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return int.from_bytes(waiting, sys.byteorder)


class ReadEnd(asyncio.Protocol):
    """The reading end of a pipe."""

    def __init__(self) -> None:
        self.transport: asyncio.ReadTransport | None = None
        self.ended: asyncio.Future[None] | None = None
        self.file: io.FileIO | None = None
        self.turns = tasks.FairReader(self._pause, self._resume)
        self.has_spoken = False
        self.lines_since_read = 0
        """Lines written to the process at once since it last wrote anything here."""
        self._marked = 0
        """How many bytes are still to be read before the mark is reached."""
        self._mark: asyncio.Future[None] | None = None

    def take(self, data: bytes) -> None:
        """Handle bytes that were read."""
        raise NotImplementedError

    def steps(self, data: bytes) -> Iterator[None]:
        """Handle them in steps, between which other peers have turns."""
        for start in range(0, len(data), SLICE_BYTES):
            self.take(data[start : start + SLICE_BYTES])
            yield

    def flush(self) -> None:
        """Handle a last line that has no end."""
        raise NotImplementedError

    @property
    def has_ended(self) -> bool:
        """Whether the other end was closed by all who had it, or this one was."""
        return self.ended is not None and self.ended.done()

    def mark(self) -> asyncio.Future[None]:
        """Return a future that is done once all that is in the pipe now has been handled."""
        assert self.ended is not None, "its transport is there"
        if self.has_ended or self.transport is None or self.transport.is_closing():
            return self.ended
        if self._mark is not None and not self._mark.done():
            return self._mark
        self._mark = asyncio.get_running_loop().create_future()
        self._marked = unread_in(self.file)
        if not self._marked:
            self._reach_mark()
        return self._mark

    def _reach_mark(self) -> None:
        """Wake the waiter of the mark, after what still waits for its turn."""
        if self.turns.is_behind:
            self.turns.take(self._pass_mark())
        else:
            self._wake()

    def _pass_mark(self) -> Iterator[None]:
        self._wake()
        yield

    def _wake(self) -> None:
        if self._mark is not None and not self._mark.done():
            self._mark.set_result(None)

    def drop_turns(self) -> None:
        """Drop what was read and waits for its turn."""
        self.turns.drop()
        if not self._marked:
            self._wake()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.ReadTransport, transport)
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.has_spoken = True
        self.lines_since_read = 0
        if self.turns.is_behind or has_many_lines(data, FEW_LINES):
            self.turns.take(self.steps(data))
        else:
            self.take(data)
        if self._marked:
            self._marked = max(0, self._marked - len(data))
            if not self._marked:
                self._reach_mark()
        if len(data) >= REST_BYTES:
            self.turns.rest()

    def _pause(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.turns.drop()  # if something is left, we closed it
        self._wake()
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class StdoutEnd(ReadEnd):
    def __init__(self, framer: Framer, on_frame: Frames, on_end: Callable[[], None]) -> None:
        super().__init__()
        self.on_frame = on_frame
        self.framer = framer
        self._feed = framer.feed
        self._on_end = on_end

    def mute(self) -> None:
        self.on_frame = _drop
        self.drop_turns()

    def take(self, data: bytes) -> None:
        if self.framer.partial_bytes() + len(data) > REST_BYTES:
            self.turns.take(self.steps(data))
            return
        frames = iter(self._feed(data))
        for frame in frames:
            self.on_frame(frame)
            if self.turns.is_behind:  # it was an array
                self.turns.take(self.one_by_one(frames))
                return

    def steps(self, data: bytes) -> Iterator[None]:
        for start in range(0, len(data), SLICE_BYTES):
            yield from self.one_by_one(self._feed(data[start : start + SLICE_BYTES]))
            yield

    def one_by_one(self, frames: Iterable[Frame | Oversized]) -> Iterator[None]:
        for frame in frames:
            yield self.on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.flush()
        self._on_end()

    def flush(self) -> None:
        for frame in self._feed(b"\n"):
            if not _is_cut_off(frame):
                self.on_frame(frame)


def _is_cut_off(frame: Frame | Oversized) -> bool:
    """Return whether a last line is the beginning of a message that was never finished.

    It is no answer: the request fails with how the process ended, or is sent again.
    """
    if isinstance(frame, Oversized) or not frame.lstrip().startswith(b"{"):
        return False
    try:
        envelope.decode(frame)
    except envelope.Malformed as problem:
        return not problem.is_json
    return False


class StderrEnd(ReadEnd):
    def __init__(self, on_data: Callable[[bytes], None]) -> None:
        super().__init__()
        self._on_data = on_data

    def take(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.flush()

    def flush(self) -> None:
        self._on_data(b"")


class StdinEnd(asyncio.Protocol):
    """The writing end of a pipe: whether it is full, and whether it is lost."""

    def __init__(self, on_end: Callable[[], None], on_room: Callable[[], None]) -> None:
        self.is_full = False
        self.is_lost = False
        self.is_ours = False  # whether we close it
        self._on_end = on_end
        self._on_room = on_room

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._on_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._on_room()
        if not self.is_ours:
            self._on_end()
