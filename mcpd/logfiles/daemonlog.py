"""The daemon's own log: lines on its stderr, and the newest of them in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final

from mcpd import privatefiles
from mcpd.logfiles.line import LogLine, Parse, parsed
from mcpd.logfiles.logfile import LogFile, is_open_on
from mcpd.logfiles.recent import MOST_LINES, Follower, RecentLines
from mcpd.logfiles.sink import CountingWriter, Sink
from mcpd.logfiles.stream import Stream

LINE_BYTES: Final = 4096
"""The most that is written of a line: what a pipe takes at once or not at all (``PIPE_BUF``)."""


def parse_line(data: bytes) -> LogLine:
    """Parse ``TIME TEXT``; a line that the daemon did not write has no time."""
    text = data.decode(errors="replace")
    time, _, rest = text.partition(" ")
    is_ours = time[:1].isdigit() and time.endswith("Z")
    return LogLine(time, "mcpd", rest) if is_ours else LogLine("", "mcpd", text)


def cut(data: bytes) -> bytes:
    """Return a line without its newline, cut to ``LINE_BYTES`` with it."""
    if len(data) < LINE_BYTES:
        return data
    return data[: LINE_BYTES - 8].decode(errors="ignore").encode() + "…".encode()


class DaemonLog:
    """Writes lines to stderr, and keeps the newest ones.

    Stderr may be the daemon's own file, which is rotated, and replaced after it was moved away.
    Anything else (a pipe, a terminal, another file) is only written to.

    Invariant: writing never blocks and never raises. A terminal that is stopped, a pipe that nobody
    reads and a disk that is full cost lines, and the log tells how many are missing.
    """

    def __init__(
        self,
        fd: int = 2,
        *,
        file: str | None = None,
        max_bytes: int = 10 * 1024 * 1024,
        backups: int = 3,
        note: Callable[[int], bytes] = lambda n: b"[%d lines are missing here]\n" % n,
        parse: Parse = parse_line,
    ) -> None:
        """``file`` is the path that ``fd`` may be open on; then the file is rotated.

        ``note`` returns the line that tells how many are missing, ``parse`` reads a line of the
        file.
        """
        self.on_growth: Callable[[int], object] = lambda _: None
        """Called with the number of bytes written to a file of the daemon's own."""
        self._file: LogFile | None = None
        if file is not None and is_open_on(fd, file):
            self._file = LogFile(
                file,
                max_bytes=max_bytes,
                backups=backups,
                fd=fd,
                open_directory=privatefiles.open_or_make,
            )
        sink: Sink = self._file or Stream(fd)
        self._writer = CountingWriter(sink, note)
        self._recent = RecentLines(most_bytes=MOST_LINES * LINE_BYTES)
        self._parse = parse

    def limit(self, *, max_bytes: int, backups: int) -> None:
        """Apply changed limits, from the next line on."""
        if self._file is not None:
            self._file.max_bytes, self._file.backups = max_bytes, backups

    def write(self, line: LogLine, data: bytes) -> None:
        """Write a line as ``data``, which ends with a newline, and keep it as ``line``."""
        written = self._writer.write([data])
        if written.lines and self._file is not None:
            self.on_growth(len(data))
        self._recent.add(line, len(data), is_stored=bool(written.lines))

    def tail(self, count: int) -> list[LogLine]:
        """Return the newest ``count`` lines, or all there are, the oldest first.

        Where the log is a file they come from there: also those of earlier daemons, and the
        stacks of one that hung. Lines that were not written come from memory.
        """
        return [line for piece in self.pieces(count) for line in piece]

    def pieces(self, count: int) -> Iterator[list[LogLine]]:
        """Return what ``tail`` returns, as of now, a few milliseconds of work at a time."""
        if count <= 0:
            return iter(())
        if self._file is None:
            return iter([self._recent.lines()[-count:]])
        unwritten = self._recent.unstored()[-count:]
        written = self._file.pieces(count - len(unwritten))
        return itertools.chain(parsed(written, self._parse), [unwritten])

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` with each line from now on; return what ends that."""
        return self._recent.follow(follower)
