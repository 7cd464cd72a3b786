"""One line of a log, and the time as the product writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

PIECE_LINES: Final = 1000
"""Lines of a file parsed before other work gets its turn: a few milliseconds."""


class LogLine(msgspec.Struct, frozen=True):
    """One line, as ``mcpd/logs`` returns it."""

    time: str
    """RFC 3339, UTC, milliseconds; empty for a line that the daemon did not write."""

    source: str
    """``stderr``, ``stdout`` (output that is not protocol) or ``mcpd`` (written by the daemon)."""

    text: str


Parse = Callable[[bytes], LogLine]
"""Parses one line of a file."""


def parsed(pieces: Iterable[list[bytes]], parse: Parse) -> Iterator[list[LogLine]]:
    """Yield the lines of a file, ``PIECE_LINES`` at a time at most."""
    for lines in pieces:
        for start in range(0, len(lines) or 1, PIECE_LINES):
            yield [parse(line) for line in lines[start : start + PIECE_LINES]]


def now() -> str:
    """Return the time of day as the product writes it."""
    return stamp(datetime.now(UTC))


def stamp(instant: datetime) -> str:
    """Return an instant in UTC as the product writes it: RFC 3339, with milliseconds."""
    return instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
