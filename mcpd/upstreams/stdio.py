"""A child's three pipes as frames in, lines out and bounded writing."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import sys
import termios
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from mcpd import tasks
from mcpd.core.wire import envelope
from mcpd.core.wire.framing import Frame, Framer, Oversized, has_many_lines
from mcpd.core.wire.memory import Memory, Share
from mcpd.tasks import FEW_LINES, REST_BYTES, SLICE_BYTES

FLUSH_S = 0.2
"""How long what was written may take to go out once stdin is to be closed."""

HIGH_WATER_BYTES = 64 * 1024
"""As much is left to the transport; a cancellation overtakes the lines that wait after that."""

LINES_AT_ONCE = 4
"""Lines that are written at once after the process's last output, so that it begins without delay.
Those that follow are written together, at the end of an iteration of the loop."""

TELLS_UNREAD = sys.platform == "linux"
"""Whether the writing end of a pipe tells how much is in it."""

Frames = Callable[[Frame | Oversized], None]


class Pipes:
    """What a server reads and writes, while its process lives.

    Invariant: no coroutine and no task per message; what the server writes is taken at once,
    however slow whoever it is for may be, and what it does not read is bounded.
    """

    def __init__(
        self,
        *,
        max_message_bytes: int,
        max_unsent_bytes: int,
        memory: Memory,
        on_frame: Frames,
        on_stderr: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        """``memory`` counts what it has not read once that backs up.

        ``on_stderr`` gets bytes as they come, and none when there will be no more.

        ``on_end`` hears that it closed its stdin or stdout, perhaps twice: it is of no use then.
        """
        self._max_unsent = max_unsent_bytes
        self._stdin: asyncio.WriteTransport | None = None
        self._stdin_file: io.FileIO | None = None
        self._stdout = _Stdout(Framer(max_message_bytes), on_frame, on_end)
        self._stderr = _Stderr(on_stderr)
        self._sink = _Sink(on_end, self._hand_on)
        self._urgent: deque[bytes] = deque()
        """Cancellations, which are written before ``_queue``."""
        self._queue: OrderedDict[int, bytes] = OrderedDict()
        """Whole lines that wait until it reads: requests by id, others by numbers below 0."""
        self._queued_bytes = 0
        self._others = 0
        self._batch: list[bytes] = []
        """Lines that are written together at the end of this iteration of the loop. They are few:
        at most ``HIGH_WATER_BYTES``, as what is left to the transport."""
        self._batch_bytes = 0
        self._unsent = Share(memory)

    async def connect(self, stdin: int, stdout: int, stderr: int) -> None:
        """Take over three descriptors, which are closed with us."""
        loop = asyncio.get_running_loop()
        self._stderr.file = os.fdopen(stderr, "rb", 0)
        await loop.connect_read_pipe(lambda: self._stderr, self._stderr.file)
        self._stdin_file = os.fdopen(stdin, "wb", 0)
        self._stdin, _ = await loop.connect_write_pipe(lambda: self._sink, self._stdin_file)
        self._stdin.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._stdout.file = os.fdopen(stdout, "rb", 0)
        await loop.connect_read_pipe(lambda: self._stdout, self._stdout.file)

    @property
    def has_spoken(self) -> bool:
        """Whether it has written anything."""
        return self._stdout.has_spoken or self._stderr.has_spoken

    @property
    def has_output(self) -> bool:
        """Whether it has written anything on its stdout."""
        return self._stdout.has_spoken

    def unread_bytes(self) -> int:
        """Return how many bytes that were written to it, it has not read.

        Where the system does not tell what is in a pipe, what is there counts as read.
        """
        stdin, file = self._stdin, self._stdin_file
        if stdin is None or file is None or stdin.is_closing() or file.closed:
            return 0
        unsent = stdin.get_write_buffer_size() + self._batch_bytes + self._queued_bytes
        return unsent + (_unread(file) if TELLS_UNREAD else 0)

    def unfinished(self) -> tuple[bytes, int]:
        """Return how a line of stdout begins that has no end yet, and its bytes so far."""
        return self._stdout.framer.begun(), self._stdout.framer.pending()

    @property
    def is_open(self) -> bool:
        """Whether there is a stdin to write to."""
        return self._stdin is not None and not self._stdin.is_closing()

    def write(self, data: bytes, wire_id: int = 0, *, cancels: int = 0) -> bool:
        """Write a line; ``False`` when its bound is reached, or its stdin is closed.

        Never blocks. ``wire_id`` is 0 for what is no request; half as much again is kept of that.
        The cancellation of the request ``cancels`` overtakes the lines that are queued; where the
        request is one of them, it is taken out, and neither is written.
        """
        stdin = self._stdin
        if stdin is None or stdin.is_closing():
            return False
        if self._batch and self._batch_bytes + len(data) > HIGH_WATER_BYTES:
            self._flush()
        if not (self._sink.is_full or self._queue or self._urgent):
            self._write_line(stdin, data)
            return True
        withdrawn = self._queue.pop(cancels, None) if cancels else None
        if withdrawn is not None:
            self._queued_bytes -= len(withdrawn)
            self._count_unsent(stdin)
            return True
        most = self._max_unsent if wire_id else self._max_unsent * 3 // 2
        waiting = self._count_unsent(stdin)
        if waiting + len(data) > most or not self._unsent.take(len(data)):
            return False
        self._queued_bytes += len(data)
        if cancels:
            self._urgent.append(data)
        else:
            self._others -= 1
            self._queue[wire_id or self._others] = data
        return True

    def _write_line(self, stdin: asyncio.WriteTransport, data: bytes) -> None:
        """Write a line at once, or together with others at the end of an iteration of the loop.

        A transport makes a system call for each line. With many clients that is one for each of
        their requests, and the server wakes up for each.
        """
        if not self._batch:
            stdout = self._stdout
            if stdout.lines_since_read < LINES_AT_ONCE or len(data) > HIGH_WATER_BYTES:
                stdout.lines_since_read += 1
                stdin.write(data)
                return
            asyncio.get_running_loop().call_soon(self._flush)
        self._batch.append(data)
        self._batch_bytes += len(data)

    def _flush(self) -> None:
        """Write the lines that were held for the end of the iteration."""
        stdin, batch = self._stdin, self._batch
        self._batch, self._batch_bytes = [], 0
        if batch and stdin is not None and not stdin.is_closing():
            stdin.write(b"".join(batch))

    def _next(self) -> bytes | None:
        """Take out the line that is written next."""
        if self._urgent:
            line = self._urgent.popleft()
        elif self._queue:
            line = self._queue.popitem(last=False)[1]
        else:
            return None
        self._queued_bytes -= len(line)
        return line

    def _hand_on(self) -> None:
        """Write what is queued, as far as there is room; drop it where nobody will read it."""
        stdin = self._stdin
        if stdin is None or stdin.is_closing() or self._sink.is_lost:
            self._drop_queue()
            return
        while not self._sink.is_full:
            if stdin.get_write_buffer_size() > HIGH_WATER_BYTES:
                # uvloop writes, and pauses, at the end of an iteration
                asyncio.get_running_loop().call_soon(self._hand_on)
                break
            line = self._next()
            if line is None:
                break
            stdin.write(line)
        self._count_unsent(stdin)

    def _count_unsent(self, stdin: asyncio.WriteTransport) -> int:
        """Count what waits for the process to read; return its bytes, 0 while it keeps up."""
        is_behind = self._sink.is_full or self._queue or self._urgent
        waiting = stdin.get_write_buffer_size() + self._queued_bytes if is_behind else 0
        self._unsent.set(waiting)
        return waiting

    def _drop_queue(self) -> None:
        self._batch, self._batch_bytes = [], 0
        self._urgent.clear()
        self._queue.clear()
        self._queued_bytes = 0
        self._unsent.set(0)

    def close_stdin(self) -> None:
        """Let the server see the end of its input, soon even if it does not read."""
        stdin = self._stdin
        if stdin is None or self._sink.is_lost:
            return
        self._sink.is_ours = True
        self._flush()
        while (line := self._next()) is not None:
            stdin.write(line)
        stdin.close()
        asyncio.get_running_loop().call_later(FLUSH_S, self._abort_stdin, stdin)

    def _abort_stdin(self, stdin: asyncio.WriteTransport) -> None:
        if not self._sink.is_lost:
            stdin.abort()

    def mute(self) -> None:
        """Pass nothing more of its stdout on; it is still drained."""
        self._stdout.mute()

    def bring(self, elements: list[bytes]) -> None:
        """Hand over the elements of a frame before any other, in turns with other peers."""
        self._stdout.turns.first(self._stdout.one_by_one(elements))

    async def drain(self, grace: float) -> bool:
        """Wait until all that was written so far has been handled; return whether both ended.

        To be called when the process has ended. A descendant may hold its pipes open: what it
        writes from now on is waited for only ``grace`` seconds. The rest takes as long as it
        takes: a pipe holds a bounded number of bytes, and a busy loop loses none of them.
        """
        ends = [one for one in (self._stdout, self._stderr) if one.ended is not None]
        if ends:
            await asyncio.wait([end.mark() for end in ends])
            await asyncio.wait([end.ended for end in ends if end.ended], timeout=grace)
        left = [end for end in ends if not end.has_ended]
        for end in left:
            end.flush()
        return not left

    def close(self) -> None:
        """Close all three, whoever still holds the other ends."""
        self.mute()
        self._sink.is_ours = True
        self._drop_queue()
        for transport in (self._stdin, self._stdout.transport, self._stderr.transport):
            if transport is not None and not transport.is_closing():
                if isinstance(transport, asyncio.WriteTransport):
                    transport.abort()
                else:
                    transport.close()


def _nobody(_frame: Frame | Oversized) -> None:
    """Drop a frame of a server that is on its way out."""


def _unread(pipe: io.FileIO | None) -> int:
    """Return how many bytes are in a pipe."""
    waiting = bytearray(4)
    if pipe is not None and not pipe.closed:
        with contextlib.suppress(OSError):
            fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return int.from_bytes(waiting, sys.byteorder)


class _End(asyncio.Protocol):
    """The reading end of a pipe."""

    def __init__(self) -> None:
        self.transport: asyncio.ReadTransport | None = None
        self.ended: asyncio.Future[None] | None = None
        self.file: io.FileIO | None = None
        self.turns = tasks.Turns(self._pause, self._resume)
        self.has_spoken = False
        self.lines_since_read = 0
        """Lines written to the process at once since it last wrote anything here."""
        self._marked = 0
        """How many bytes are still to be read before the mark is reached."""
        self._mark: asyncio.Future[None] | None = None

    def take(self, data: bytes) -> None:
        """Do what is to be done with bytes that were read."""
        raise NotImplementedError

    def steps(self, data: bytes) -> Iterator[None]:
        """Do it bit by bit."""
        for start in range(0, len(data), SLICE_BYTES):
            self.take(data[start : start + SLICE_BYTES])
            yield

    def flush(self) -> None:
        """Handle a last line that has no end."""
        raise NotImplementedError

    @property
    def has_ended(self) -> bool:
        """Whether nobody can write into it any more, or it was closed."""
        return self.ended is not None and self.ended.done()

    def mark(self) -> asyncio.Future[None]:
        """Return what is done once all that is in the pipe now has been handled."""
        assert self.ended is not None, "its transport is there"
        if self.has_ended or self.transport is None or self.transport.is_closing():
            return self.ended
        if self._mark is not None and not self._mark.done():
            return self._mark
        self._mark = asyncio.get_running_loop().create_future()
        self._marked = _unread(self.file)
        if not self._marked:
            self._reach_mark()
        return self._mark

    def _reach_mark(self) -> None:
        """Wake whoever waits, behind what still waits for its turn."""
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
        """Leave undone what was read and waits for its turn."""
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
        self.turns.drop()  # only we close it while something is left
        self._wake()
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class _Stdout(_End):
    def __init__(self, framer: Framer, on_frame: Frames, on_end: Callable[[], None]) -> None:
        super().__init__()
        self.on_frame = on_frame
        self.framer = framer
        self._feed = framer.feed
        self._on_end = on_end

    def mute(self) -> None:
        self.on_frame = _nobody
        self.drop_turns()

    def take(self, data: bytes) -> None:
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
    """Tell whether a last line is the beginning of a message that nobody lived to write.

    It answers nothing: whoever waits is told how the process died, or gets the next one's answer.
    """
    if isinstance(frame, Oversized) or not frame.lstrip().startswith(b"{"):
        return False
    try:
        envelope.decode(frame)
    except envelope.Malformed as problem:
        return not problem.is_json
    return False


class _Stderr(_End):
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


class _Sink(asyncio.Protocol):
    """The writing end: whether it is backed up, and whether it is gone."""

    def __init__(self, on_end: Callable[[], None], on_room: Callable[[], None]) -> None:
        self.is_full = False
        self.is_lost = False
        self.is_ours = False  # the end, when it comes
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
