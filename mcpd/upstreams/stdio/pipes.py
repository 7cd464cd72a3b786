"""A process's three pipes: frames from stdout, lines to stdin with a bound, bytes from stderr."""

from __future__ import annotations

import asyncio
import io
import os
from collections import OrderedDict, deque
from collections.abc import Callable

from mcpd.core.mcp.routing import Routing
from mcpd.core.wire.framing import Framer
from mcpd.core.wire.memory import Memory, Share
from mcpd.upstreams.run import Frames
from mcpd.upstreams.stdio.ends import TELLS_UNREAD, StderrEnd, StdinEnd, StdoutEnd, unread_in

FLUSH_S = 0.2
"""Seconds that a server has for reading what was written, before its stdin is closed."""

HIGH_WATER_BYTES = 64 * 1024
"""Bytes that the transport buffers. Lines after that are queued here, where a cancellation
overtakes them."""

QUEUED_LINE_BYTES = 256
"""Memory that a line takes in the queue in addition to its own bytes, estimated."""

LINES_AT_ONCE = 4
"""Lines that are written at once after the process's last output, so that it begins without delay.
Those that follow are written together, at the end of an iteration of the loop."""


class Pipes:
    """The channel to a server that is a process.

    Invariant: no coroutine and no task per message; what the server writes is read at once,
    however slow its receiver is, and what it does not read is bounded.
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
        """``memory`` counts what the process has not read once its stdin is full.

        ``on_stderr`` gets bytes as they come, and none when there will be no more. ``on_end`` is
        called, perhaps twice, when the process closes its stdin or stdout.
        """
        self._max_unsent = max_unsent_bytes
        self._stdin: asyncio.WriteTransport | None = None
        self._stdin_file: io.FileIO | None = None
        self._stdout = StdoutEnd(Framer(max_message_bytes), on_frame, on_end)
        self._stderr = StderrEnd(on_stderr)
        self._stdin_end = StdinEnd(on_end, self._hand_on)
        self._urgent: deque[bytes] = deque()
        """Cancellations, which are written before ``_queue``."""
        self._queue: OrderedDict[int, bytes] = OrderedDict()
        """Whole lines that wait until it reads: requests by wire id, others by numbers below 0."""
        self._queued_bytes = 0
        self._others = 0
        self._batch: list[bytes] = []
        """Lines that are written together at the end of this iteration of the loop. They are few:
        at most ``HIGH_WATER_BYTES``, as what is left to the transport."""
        self._batch_bytes = 0
        self._unsent = Share(memory)

    async def connect(self, stdin: int, stdout: int, stderr: int) -> None:
        """Take over three descriptors, which ``close`` closes."""
        loop = asyncio.get_running_loop()
        self._stderr.file = os.fdopen(stderr, "rb", 0)
        await loop.connect_read_pipe(lambda: self._stderr, self._stderr.file)
        self._stdin_file = os.fdopen(stdin, "wb", 0)
        self._stdin, _ = await loop.connect_write_pipe(lambda: self._stdin_end, self._stdin_file)
        self._stdin.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._stdout.file = os.fdopen(stdout, "rb", 0)
        await loop.connect_read_pipe(lambda: self._stdout, self._stdout.file)

    @property
    def has_spoken(self) -> bool:
        """Whether the process has written anything."""
        return self._stdout.has_spoken or self._stderr.has_spoken

    @property
    def has_output(self) -> bool:
        """Whether the process has written anything on its stdout."""
        return self._stdout.has_spoken

    def unread_bytes(self) -> int:
        """Return how many bytes that were written have not been read by the process.

        Where the system does not show what is in a pipe, that counts as read.
        """
        stdin, file = self._stdin, self._stdin_file
        if stdin is None or file is None or stdin.is_closing() or file.closed:
            return 0
        unsent = stdin.get_write_buffer_size() + self._batch_bytes + self._queued_bytes
        return unsent + (unread_in(file) if TELLS_UNREAD else 0)

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of a line of stdout that has not ended, and its bytes so far."""
        return self._stdout.framer.partial_head(), self._stdout.framer.partial_bytes()

    @property
    def is_open(self) -> bool:
        """Whether there is a stdin to write to."""
        return self._stdin is not None and not self._stdin.is_closing()

    def write(
        self,
        data: bytes,
        wire_id: int = 0,
        *,
        cancels: int = 0,
        routing: Routing | None = None,
    ) -> bool:
        """Write a line; ``False`` when its bound is reached, or its stdin is closed.

        Never blocks. ``wire_id`` is 0 for what is no request, for which the bound is half as much
        again. The cancellation of the request ``cancels`` overtakes the lines that are queued;
        where the request is one of them, it is removed, and neither is written. Pipes have no
        headers, and need no ``routing``.
        """
        stdin = self._stdin
        if stdin is None or stdin.is_closing():
            return False
        if self._batch and self._batch_bytes + len(data) > HIGH_WATER_BYTES:
            self._flush()
        if not (self._stdin_end.is_full or self._queue or self._urgent):
            self._write_line(stdin, data)
            return True
        withdrawn = self._queue.pop(cancels, None) if cancels else None
        if withdrawn is not None:
            self._queued_bytes -= len(withdrawn)
            self._count_unsent(stdin)
            return True
        most = self._max_unsent if wire_id else self._max_unsent * 3 // 2
        waiting = self._count_unsent(stdin)
        size = len(data) + QUEUED_LINE_BYTES
        if waiting + size > most or not self._unsent.take(size):
            return False
        self._queued_bytes += len(data)
        if cancels:
            self._urgent.append(data)
        else:
            self._others -= 1
            self._queue[wire_id or self._others] = data
        return True

    def introduced(self, version: str) -> None:
        """Do nothing: on pipes all revisions look the same."""

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
        """Remove and return the line that is written next."""
        if self._urgent:
            line = self._urgent.popleft()
        elif self._queue:
            line = self._queue.popitem(last=False)[1]
        else:
            return None
        self._queued_bytes -= len(line)
        return line

    def _hand_on(self) -> None:
        """Write what is queued, as far as there is room; drop it if stdin is lost."""
        stdin = self._stdin
        if stdin is None or stdin.is_closing() or self._stdin_end.is_lost:
            self._drop_queue()
            return
        while not self._stdin_end.is_full:
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
        """Count and return the bytes that wait for the process to read; 0 while it keeps up."""
        waiting, lines = 0, len(self._queue) + len(self._urgent)
        if self._stdin_end.is_full or lines:
            waiting = stdin.get_write_buffer_size() + self._queued_bytes + lines * QUEUED_LINE_BYTES
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
        if stdin is None or self._stdin_end.is_lost:
            return
        self._stdin_end.is_ours = True
        self._flush()
        while (line := self._next()) is not None:
            stdin.write(line)
        stdin.close()
        asyncio.get_running_loop().call_later(FLUSH_S, self._abort_stdin, stdin)

    def _abort_stdin(self, stdin: asyncio.WriteTransport) -> None:
        if not self._stdin_end.is_lost:
            stdin.abort()

    def mute(self) -> None:
        """Deliver nothing more of its stdout, which is still read."""
        self._stdout.mute()

    def bring(self, elements: list[bytes]) -> None:
        """Deliver the elements of a frame before any other, in turns with other peers."""
        self._stdout.turns.first(self._stdout.one_by_one(elements))

    async def drain(self, grace: float) -> bool:
        """Wait until all that was written so far has been handled; return whether both pipes ended.

        Call it when the process has ended. A descendant may hold the pipes open: what that writes
        from now on is waited for only ``grace`` seconds. What is in the pipes has no time limit:
        it is bounded, and a busy loop must not lose any of it.
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
        """Close all three, even if descendants hold the other ends."""
        self.mute()
        self._stdin_end.is_ours = True
        self._drop_queue()
        for transport in (self._stdin, self._stdout.transport, self._stderr.transport):
            if transport is not None and not transport.is_closing():
                if isinstance(transport, asyncio.WriteTransport):
                    transport.abort()
                else:
                    transport.close()
