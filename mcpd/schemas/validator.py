"""Checks arguments against a tool's schema in a worker process, without blocking the loop.

The caller passes in a function that starts the worker, because the daemon starts and reaps
processes in one place. There is one check at a time. A worker that takes too long, or is unused for
a minute, is killed; the next check starts another.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from mcpd.errors import McpdError
from mcpd.schemas.channel import Channel, Process
from mcpd.schemas.protocol import FINAL, FIRST, MAX_SCHEMA_BYTES, READY, REQUEST

_BOOT: Final = (
    "import sys; sys.path.append(sys.argv[1]); from mcpd.schemas.worker import main; main()"
)
ARGV: Final = [sys.executable, "-P", "-c", _BOOT, str(Path(__file__).parents[2])]
"""The command line of the worker; it imports the package from the daemon's own path."""

_START_S: Final = 10.0  # from spawn to READY, on a busy machine
_WORK_S: Final = 2.0  # of elapsed time; the kernel kills it after far less processor time
_WAIT_S: Final = 2.0  # in the queue; then the call is sent unchecked
_MAX_WAITING_BYTES: Final = 64 * 1024 * 1024

TOO_LONG: Final = "it took too long"
BUSY: Final = "the validator is busy"
CLOSED: Final = "the daemon is ending"
NOT_STARTED: Final = "the validator could not be started"


class Violation(msgspec.Struct, frozen=True):
    """A part of the arguments that the schema does not allow.

    ``path`` is written as ``items[2].name``, or ``(root)`` for the arguments as a whole, where the
    message names a missing property.
    """

    path: str
    message: str


class Unchecked(msgspec.Struct, frozen=True):
    """The arguments were not checked; ``reason`` completes "not checked: …"."""

    reason: str


Outcome = list[Violation] | Unchecked

Spawn = Callable[[list[str]], Process]
"""Starts a process with pipes as its stdin and stdout; raises ``OSError`` or ``McpdError``."""


class _Answer(msgspec.Struct):
    violations: list[tuple[str, str]] = []
    unchecked: str | None = None


_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


class _Job:
    def __init__(self, loop: asyncio.AbstractEventLoop, schema: bytes, arguments: bytes) -> None:
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.frame = (REQUEST.pack(len(schema), len(arguments)), schema, arguments)
        self.size = len(schema) + len(arguments)
        self.asked = loop.time()
        self.first: list[Violation] | None = None  # the result if the rest takes too long

    def finish(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Validator:
    """The validator of a daemon. It runs on the daemon's loop and never blocks."""

    def __init__(self, spawn: Spawn, *, idle: float = 60.0) -> None:
        """Create it; the worker is killed after ``idle`` seconds without a check."""
        self._spawn = spawn
        self._idle = idle
        self._channel: Channel | None = None
        self._is_ready = False  # the worker has sent READY
        self._job: _Job | None = None  # the check that the worker runs
        self._waiting: deque[_Job] = deque()
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None  # one for all: start, work or idle
        self._is_closed = False

    async def check(self, schema: bytes, arguments: bytes) -> Outcome:
        """Check arguments against a schema, both JSON; return an empty list if they are valid.

        Never raises because of the schema or the arguments. Cancelling is safe. A check takes at
        most 100 ms of processor time, and may have to wait for earlier ones.
        """
        if len(schema) > MAX_SCHEMA_BYTES:
            return Unchecked(f"its schema is larger than {MAX_SCHEMA_BYTES} bytes")
        if self._is_closed:
            return Unchecked(CLOSED)
        job = _Job(asyncio.get_running_loop(), schema, arguments)
        if self._waiting and self._waiting_bytes + job.size > _MAX_WAITING_BYTES:
            return Unchecked(BUSY)
        self._waiting.append(job)
        self._waiting_bytes += job.size
        self._next()
        return await job.outcome

    def prewarm(self) -> None:
        """Start the worker, so that the first check does not wait for its imports."""
        if self._channel is None and not self._is_closed and self._start():
            self._expect(self._idle)

    def close(self) -> None:
        """Kill the worker; pending checks end as ``Unchecked``."""
        self._is_closed = True
        while self._waiting:
            self._waiting.popleft().finish(Unchecked(CLOSED))
        self._end(Unchecked(CLOSED))

    def _next(self) -> None:
        while self._job is None and self._waiting:
            job = self._waiting.popleft()
            self._waiting_bytes -= job.size
            if job.outcome.done():
                continue
            if asyncio.get_running_loop().time() - job.asked > _WAIT_S:
                job.finish(Unchecked(BUSY))
            elif self._channel is None and not self._start():
                job.finish(Unchecked(NOT_STARTED))
            else:
                self._give(job)

    def _give(self, job: _Job) -> None:
        assert self._channel is not None  # the only caller has started the worker
        self._job = job
        self._channel.send(*job.frame)
        self._expect(_WORK_S if self._is_ready else _START_S)

    def _start(self) -> bool:
        try:
            process = self._spawn(list(ARGV))
        except (OSError, McpdError):
            return False
        self._is_ready = False
        self._channel = Channel(process, self._answered, self._lost)
        return True

    def _answered(self, kind: bytes, body: bytes) -> None:
        job = self._job
        if kind == READY:
            self._is_ready = True
            if job is not None:
                self._expect(_WORK_S)
        elif job is not None and kind in (FIRST, FINAL):
            answer = _decode_answer(body)
            violations = [Violation(path, message) for path, message in answer.violations]
            if kind == FIRST:
                job.first = violations
                return
            self._job = None
            self._expect(self._idle)
            if answer.unchecked is not None:
                job.finish(job.first or Unchecked(answer.unchecked))
            else:
                job.finish(violations)
            self._next()

    def _lost(self) -> None:
        """Handle the end of the worker, and continue with the next check."""
        self._end(Unchecked(TOO_LONG if self._is_ready else NOT_STARTED))
        self._next()

    def _end(self, outcome: Unchecked) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.kill()
        job, self._job = self._job, None
        if job is not None:
            job.finish(outcome if job.first is None else job.first)

    def _expect(self, within: float) -> None:
        """Kill the worker if it sends nothing ``within`` seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(within, self._lost)
