"""The pipes of one worker: writes requests without blocking, reads answers, detects its end."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from mcpd.schemas.protocol import ANSWER

_PIECE: Final = 64 * 1024
_MAX_ANSWER_BYTES: Final = 1024 * 1024  # answers have a few kilobytes; more is a broken worker


class Process(NamedTuple):
    """A worker process that has been started.

    The descriptors are the daemon's ends of its pipes; the receiver of this value closes them.
    ``kill`` sends SIGKILL and may be called after the process has ended. The caller that started
    the process reaps it.
    """

    pid: int
    stdin: int
    stdout: int
    kill: Callable[[], None]


class Channel:
    """Reads and writes a worker's pipes on the running loop until either side ends."""

    def __init__(
        self,
        process: Process,
        on_answer: Callable[[bytes, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        """Take over the process. ``on_end`` is called once, but not after ``kill``."""
        self.pid: Final = process.pid
        self._process = process
        self._on_answer = on_answer
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._received = bytearray()
        self._is_open = True
        os.set_blocking(process.stdin, False)
        os.set_blocking(process.stdout, False)
        self._loop.add_reader(process.stdout, self._readable)

    def send(self, *parts: bytes) -> None:
        """Queue the parts, which are written in order as fast as the worker reads."""
        if not self._unsent:
            self._loop.add_writer(self._process.stdin, self._writable)
        self._unsent.extend(memoryview(part) for part in parts if part)

    def kill(self) -> None:
        """Kill the worker and close its pipes."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._process.stdout)
            self._loop.remove_writer(self._process.stdin)
            os.close(self._process.stdin)
            os.close(self._process.stdout)
            self._unsent.clear()
            self._process.kill()

    def _writable(self) -> None:
        try:
            written = os.write(self._process.stdin, self._unsent[0][:_PIECE])
        except BlockingIOError:
            return
        except OSError:
            self._ended()
            return
        rest = self._unsent[0][written:]
        if rest:
            self._unsent[0] = rest
        else:
            self._unsent.popleft()
        if not self._unsent:
            self._loop.remove_writer(self._process.stdin)

    def _readable(self) -> None:
        try:
            data = os.read(self._process.stdout, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        while self._is_open and len(self._received) >= ANSWER.size:
            kind, size = ANSWER.unpack_from(self._received)
            if size > _MAX_ANSWER_BYTES:
                data = b""
                break
            if len(self._received) < ANSWER.size + size:
                break
            body = bytes(self._received[ANSWER.size : ANSWER.size + size])
            del self._received[: ANSWER.size + size]
            self._on_answer(kind, body)
        if not data:
            self._ended()

    def _ended(self) -> None:
        if self._is_open:
            self.kill()
            self._on_end()
