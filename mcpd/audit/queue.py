"""What waits between the event loop, which records, and the thread, which writes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from time import time_ns  # the wall clock: a row says when it was
from typing import Any, Final, NamedTuple

import msgspec

from mcpd.core.facts import CallEnded

READ_ROWS: Final = 64
"""Rows that wait before the thread is woken to read them: their frames are in memory until then."""

MOST_ROWS: Final = 10_000
"""Rows that wait to be written. What comes then is missing, and counted."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of frames that wait to be hashed. The calls that come then have no hashes."""


Call = tuple[int, CallEnded]
"""When a call ended, in nanoseconds since the epoch, and the call."""


class Event(NamedTuple):
    """Something that was decided or done, besides calls."""

    at_ns: int
    """When, in nanoseconds since the epoch."""
    what: str
    principal: str | None
    server: str | None
    subject: str | None
    detail: Mapping[str, Any]
    files: Sequence[str]
    """Paths of files whose hashes become part of the detail."""


class Queue:
    """Rows in their order. One thread adds them and closes the queue, another one takes them.

    Adding never waits.
    """

    def __init__(self) -> None:
        self.is_closing = threading.Event()
        self.missing_rows = 0
        """How many rows were left out, since the beginning."""
        self.missing_hashes = 0
        """Of how many calls the hashes were left out."""
        self._rows: deque[Call | Event] = deque()
        self._wakes_at = 1
        """How many rows the thread is woken by; set by the thread."""
        self._flushes: deque[threading.Event] = deque()
        """Each is set once the rows that came before it were written, or could not be."""
        self._bell = threading.Lock()
        """Held, but for the moment between a ring and its being heard."""
        self._bell.acquire()
        # each of these numbers is changed by one thread alone
        self._rows_in = self._bytes_in = 0
        self._rows_out = self._bytes_out = 0

    def add_call(self, call: CallEnded) -> None:
        """Add a call that has just ended."""
        if self._rows_in - self._rows_out >= MOST_ROWS:
            self.missing_rows += 1
            return
        self._bytes_in += call.request_bytes + call.result_bytes
        if self._bytes_in - self._bytes_out > MOST_BYTES:
            self.missing_hashes += 1
            call = msgspec.structs.replace(call, arguments=None, result=None)
        self._rows_in += 1
        rows = self._rows
        rows.append((time_ns(), call))
        if len(rows) == self._wakes_at:
            self._ring()

    def add_event(
        self,
        what: str,
        principal: str | None,
        server: str | None,
        subject: str | None,
        detail: Mapping[str, Any],
        files: Sequence[str],
    ) -> None:
        """Add an event that has just happened."""
        if self._rows_in - self._rows_out >= MOST_ROWS:
            self.missing_rows += 1
            return
        self._rows_in += 1
        self._rows.append(Event(time_ns(), what, principal, server, subject, detail, files))
        if len(self._rows) == self._wakes_at:
            self._ring()

    def flush(self) -> threading.Event:
        """Have the rows that wait written now; return what is set once that was tried.

        For the thread that adds rows, and no other.
        """
        done = threading.Event()
        self._flushes.append(done)
        self._ring()
        return done

    def close(self) -> None:
        """Say that no more rows come."""
        self.is_closing.set()
        self._ring()

    def _ring(self) -> None:
        if self._bell.locked():  # nobody else releases it
            self._bell.release()

    # -- for the thread ----------------------------------------------------------------------------

    def wait(self, seconds: float | None = None, rows: int = 1) -> None:
        """Wait until there are so many rows, for ``seconds`` at most.

        A flush, and closing, end the wait.
        """
        self._wakes_at = rows
        if len(self._rows) < rows and not self.is_urgent():
            self._bell.acquire(timeout=-1 if seconds is None else max(seconds, 0.0))

    def is_urgent(self) -> bool:
        """Tell whether what waits must be written without delay."""
        return self.is_closing.is_set() or bool(self._flushes)

    def take_flushes(self) -> list[threading.Event]:
        """Return the events that are set once the rows that wait now were tried."""
        return [self._flushes.popleft() for _ in range(len(self._flushes))]

    def take(self) -> Call | Event | None:
        """Return the oldest row; ``None`` where there is none."""
        return self._rows.popleft() if self._rows else None

    def mark_read(self, size: int) -> None:
        """Note that so many bytes of frames are held no longer."""
        self._bytes_out += size

    def mark_written(self, rows: int) -> None:
        """Note that so many rows wait no longer."""
        self._rows_out += rows

    def __len__(self) -> int:
        return len(self._rows)
