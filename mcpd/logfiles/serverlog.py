"""The log of one server: its output beside the protocol, and the daemon's notes about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from mcpd.logfiles.line import LogLine, parsed, stamp
from mcpd.logfiles.logfile import LogFile
from mcpd.logfiles.recent import MOST_BYTES, MOST_LINES, Follower, RecentLines
from mcpd.logfiles.sink import CountingWriter
from mcpd.redact import Redactor

LINE_BYTES: Final = 8 * 1024
"""The most that is kept of a line."""

_SOURCES: Final = ("stderr", "stdout", "mcpd")


class ServerLog:
    """The log of one server: the newest lines in memory, more of them in a rotated file.

    Invariant: no known secret gets into memory, into the file or to a follower, and neither
    grows beyond its bounds. Lines that the disk does not take are counted and raise nothing:
    servers run on. When the disk takes lines again, the file tells how many are missing.
    """

    def __init__(
        self,
        path: str,
        *,
        max_bytes: int = 5 * 1024 * 1024,
        backups: int = 3,
        redactor: Redactor = Redactor.NONE,
        ring_lines: int = MOST_LINES,
        ring_bytes: int = MOST_BYTES,
        on_growth: Callable[[int], object] = lambda _: None,
        on_trouble: Callable[[OSError | None, int], object] = lambda _, __: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare; the file is opened by the first line.

        ``max_bytes`` for each of the file and its ``backups`` older parts. ``on_growth`` is called
        with the number of bytes written. ``on_trouble`` is called with the reason once the disk
        takes nothing more, and with ``None`` and the number of missing lines once it does again.
        """
        self._file = LogFile(path, max_bytes=max_bytes, backups=backups)
        self._line_bytes = _longest_line(max_bytes)
        self._recent = RecentLines(most_lines=ring_lines, most_bytes=ring_bytes)
        self._now = now
        self._time = ""
        """When the lines being written came."""
        self._writer = CountingWriter(self._file, lambda missing: _encoded(self._note(missing)))
        self.redactor = redactor
        """Hides the server's secrets, from the next line on."""
        self.lost = 0
        """Lines that could not be written to the file."""
        self._is_in_trouble = False
        self._lost_before = 0
        """How many lines had been lost before the trouble."""
        self._on_growth = on_growth
        self._on_trouble = on_trouble

    @property
    def is_followed(self) -> bool:
        """Whether there is a follower."""
        return self._recent.is_followed

    def limit(self, *, max_bytes: int, backups: int) -> None:
        """Apply changed limits, from the next line on."""
        self._file.max_bytes, self._file.backups = max_bytes, backups
        self._line_bytes = _longest_line(max_bytes)

    @property
    def trouble(self) -> OSError | None:
        """Why the disk takes nothing; ``None`` where it does."""
        return self._file.trouble

    def add(self, source: str, text: str) -> None:
        """Add a line from ``source`` (``stderr``, ``stdout``, ``mcpd``)."""
        self.add_lines(source, (text,))

    def add_lines(self, source: str, texts: Iterable[str]) -> list[str]:
        """Add lines that came together: one time, one write. Never raises for the disk.

        They are masked together, as a secret may have several lines; then each is cut. Returns
        the masked lines.
        """
        found = list(texts)
        if not found:
            return []
        kept = [self._cut(part) for part in self.redactor.mask("\n".join(found)).split("\n")]
        self._time = stamp(self._now().astimezone(UTC))
        lines = [LogLine(self._time, source, part) for part in kept]
        encoded = [_encoded(line) for line in lines]
        missing = self._writer.missing
        written = self._writer.write(encoded)
        stored = written.lines
        self._count(len(lines) - stored)
        if written.has_note:
            lines.insert(0, self._note(missing))
            encoded.insert(0, _encoded(lines[0]))
            stored += 1
        self._on_growth(sum(map(len, encoded[:stored])))
        for number, (line, data) in enumerate(zip(lines, encoded, strict=True)):
            self._recent.add(line, len(data), is_stored=number < stored)
        return kept

    def tail(self, count: int) -> list[LogLine]:
        """Return the newest ``count`` lines, or all there are, the oldest first.

        More than memory holds are read from the file: at most its bounds, a few milliseconds
        for each megabyte.
        """
        return [line for piece in self.pieces(count) for line in piece]

    def pieces(self, count: int) -> Iterator[list[LogLine]]:
        """Return what ``tail`` returns, as of now, a few milliseconds of work at a time."""
        recent = self._recent.lines()
        more = count - len(recent)
        if more <= 0:
            return iter([recent[-count:] if count > 0 else []])
        stored = self._recent.stored
        older = self._file.pieces(more + stored, skip=stored)
        return itertools.chain(parsed(older, _parse), [recent])

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` with each line from now on; return what ends that."""
        return self._recent.follow(follower)

    def close(self) -> None:
        """Close the file; the lines in memory and the followers stay."""
        self._file.close()

    def _note(self, missing: int) -> LogLine:
        return LogLine(self._time, "mcpd", f"[{missing} lines are missing here]")

    def _count(self, lost: int) -> None:
        """Count lines that the disk did not take, and report the beginning and the end of it."""
        self.lost += lost
        if lost and not self._is_in_trouble:
            self._is_in_trouble = True
            self._lost_before = self.lost - lost
            self._on_trouble(self._file.trouble, 0)
        elif not lost and self._is_in_trouble:
            self._is_in_trouble = False
            self._on_trouble(None, self.lost - self._lost_before)

    def _cut(self, text: str) -> str:
        if len(text) * 4 <= self._line_bytes:  # UTF-8 has at most four bytes for a character
            return text
        data = text.encode(errors="replace")
        if len(data) <= self._line_bytes:
            return text
        kept = data[: self._line_bytes].decode(errors="ignore")
        return f"{kept} […{len(data) - self._line_bytes} more bytes]"


def _longest_line(max_bytes: int) -> int:
    return min(LINE_BYTES, max(1, max_bytes - 128))


def _encoded(line: LogLine) -> bytes:
    return f"{line.time} {line.source} {line.text}\n".encode(errors="replace")


def _parse(data: bytes) -> LogLine:
    """Return a line of the file as it was when it was written."""
    text = data.decode(errors="replace")
    time, _, rest = text.partition(" ")
    source, found, message = rest.partition(" ")
    if not found or not time.endswith("Z") or source not in _SOURCES:
        return LogLine("", "mcpd", text)  # the daemon did not write it
    return LogLine(time, source, message)
