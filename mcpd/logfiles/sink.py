"""Where lines are written, and how lines that could not be written are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Sink(Protocol):
    """A file, a pipe or a terminal."""

    def append(self, lines: list[bytes]) -> int:
        """Write lines without blocking; return how many were written. Never raises."""


class Written(NamedTuple):
    """What was written of some lines."""

    has_note: bool
    """Whether a note, with the number of missing lines, was written before them."""

    lines: int
    """How many of the lines were written."""


class CountingWriter:
    """Writes lines to a sink, and writes how many are missing once the sink takes lines again."""

    def __init__(self, sink: Sink, note: Callable[[int], bytes]) -> None:
        """``note`` returns the line with the number of missing lines."""
        self._sink = sink
        self._note = note
        self.missing = 0
        """Missing lines that no note counts yet."""

    def write(self, lines: list[bytes]) -> Written:
        """Write lines, each with its newline. Never blocks and never raises."""
        note = [self._note(self.missing)] if self.missing else []
        written = self._sink.append(note + lines)
        has_note = bool(note) and written > 0
        count = written - has_note
        self.missing = (0 if has_note else self.missing) + len(lines) - count
        return Written(has_note, count)
