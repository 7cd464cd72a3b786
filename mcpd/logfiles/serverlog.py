"""What a server says beside its protocol, and what is said about it: kept, masked, followed."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from mcpd.logfiles.logfile import LogFile
from mcpd.redact import Redactor

LINE_BYTES = 8 * 1024
"""Of a longer line the rest is not kept."""

PIECE_LINES = 1000
"""Lines of a file that are taken apart at a time."""

RING_LINES = 1000
RING_BYTES = 256 * 1024


class LogLine(msgspec.Struct, frozen=True):
    """One line, as ``mcpd/logs`` gives it."""

    time: str
    """RFC 3339, UTC, milliseconds."""

    source: str
    """``stderr``, ``stdout`` (noise that is not protocol) or ``mcpd`` (a note of ours)."""

    text: str


class ServerLog:
    """The log of one server: the newest lines in memory, more of them in a rotated file.

    Invariant: no known secret gets into memory, into the file or to a follower, and neither
    grows beyond its bounds. Trouble with the disk is counted, not raised: servers run on. When it
    is over, the file says how many lines are missing.
    """

    def __init__(
        self,
        path: str,
        *,
        max_bytes: int = 5 * 1024 * 1024,
        backups: int = 3,
        redactor: Redactor = Redactor.NONE,
        ring_lines: int = RING_LINES,
        ring_bytes: int = RING_BYTES,
        on_growth: Callable[[int], object] = lambda _: None,
        on_trouble: Callable[[OSError | None, int], object] = lambda _, __: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare; the file is opened at the first line.

        ``max_bytes`` for each of the file and its ``backups`` older parts. ``on_growth`` hears of
        bytes written; ``on_trouble`` once when the disk takes nothing more, with the reason, and
        once when it does again, with ``None`` and how many lines are missing.
        """
        self._file = LogFile(path, max_bytes=max_bytes, backups=backups)
        self._line_bytes = _longest_line(max_bytes)
        self._ring: deque[tuple[LogLine, int, bool]] = deque()
        """Each line with its size and whether it is in the file too."""
        self._ring_lines, self._ring_bytes = ring_lines, ring_bytes
        self._bytes = 0
        self._stored = 0
        """How many lines of the ring are in the file."""
        self._followers: list[Callable[[LogLine], None]] = []
        self._now = now
        self.redactor = redactor
        """What hides the server's secrets, from the next line on."""
        self.lost = 0
        """Lines that could not be written to the file."""
        self._missing = 0
        """Those of them that the file does not tell of yet."""
        self._is_in_trouble = False
        self._began_at = 0
        """How many had been lost before the trouble."""
        self._on_growth = on_growth
        self._on_trouble = on_trouble

    @property
    def is_followed(self) -> bool:
        """Whether somebody is told of each line."""
        return bool(self._followers)

    def limit(self, *, max_bytes: int, backups: int) -> None:
        """Take over what the configuration says now; it counts from the next line on."""
        self._file.max_bytes, self._file.backups = max_bytes, backups
        self._line_bytes = _longest_line(max_bytes)

    @property
    def trouble(self) -> OSError | None:
        """Return why the disk takes nothing, ``None`` where it does."""
        return self._file.trouble

    def add(self, source: str, text: str) -> None:
        """Add what ``source`` (``stderr``, ``stdout``, ``mcpd``) said."""
        self.add_lines(source, (text,))

    def add_lines(self, source: str, texts: Iterable[str]) -> list[str]:
        """Add lines that came together: one time, one write. Never raises for the disk.

        They are masked together, as a secret may have several lines; then each is cut. Returns
        what has become of them.
        """
        found = list(texts)
        if not found:
            return []
        kept = [self._cut(part) for part in self.redactor.mask("\n".join(found)).split("\n")]
        time = self._now().astimezone(UTC).isoformat(timespec="milliseconds")
        time = time.removesuffix("+00:00") + "Z"
        lines = [LogLine(time, source, part) for part in kept]
        missing = self._missing
        if missing:
            lines.insert(0, LogLine(time, "mcpd", f"[{missing} lines are missing here]"))
        encoded = [
            f"{line.time} {line.source} {line.text}\n".encode(errors="replace") for line in lines
        ]
        stored = self._file.append(encoded)
        if missing and not stored:  # no need to tell of it yet
            del lines[0], encoded[0]
        elif missing:
            self._missing = 0
        self._count(len(lines) - stored)
        self._on_growth(sum(map(len, encoded[:stored])))
        for number, (line, data) in enumerate(zip(lines, encoded, strict=True)):
            self._remember(line, len(data), number < stored)
            for follower in list(self._followers):
                follower(line)
        return kept

    def _count(self, lost: int) -> None:
        """Count lines that the disk did not take, and say so once."""
        self.lost += lost
        self._missing += lost
        if lost and not self._is_in_trouble:
            self._is_in_trouble = True
            self._began_at = self.lost - lost
            self._on_trouble(self._file.trouble, 0)
        elif not lost and self._is_in_trouble:
            self._is_in_trouble = False
            self._on_trouble(None, self.lost - self._began_at)

    def tail(self, count: int) -> list[LogLine]:
        """Return the newest ``count`` lines, or all there are, the oldest first.

        More than memory holds are read from the file: at most its bounds, a few milliseconds
        for each megabyte.
        """
        return [line for piece in self.pieces(count) for line in piece]

    def pieces(self, count: int) -> Iterator[list[LogLine]]:
        """Return what ``tail`` returns, as of now, a few milliseconds of work at a time."""
        ring = [line for line, _, _ in self._ring]
        missing = count - len(ring)
        if missing <= 0:
            return iter([ring[-count:] if count > 0 else []])
        written = self._file.last(missing + self._stored)
        older = written[: max(0, len(written) - self._stored)][-missing:]
        return itertools.chain(_parsed(older), [ring])

    def follow(self, callback: Callable[[LogLine], None]) -> Callable[[], None]:
        """Have ``callback`` called with each line from now on; return what ends that.

        It is called in the middle of adding and must not raise.
        """
        self._followers.append(callback)

        def unfollow() -> None:
            if callback in self._followers:
                self._followers.remove(callback)

        return unfollow

    def close(self) -> None:
        """Close the file; memory and followers stay."""
        self._file.close()

    def _cut(self, text: str) -> str:
        if len(text) * 4 <= self._line_bytes:  # UTF-8 has at most four bytes for a character
            return text
        data = text.encode(errors="replace")
        if len(data) <= self._line_bytes:
            return text
        kept = data[: self._line_bytes].decode(errors="ignore")
        return f"{kept} […{len(data) - self._line_bytes} more bytes]"

    def _remember(self, line: LogLine, size: int, stored: bool) -> None:
        self._ring.append((line, size, stored))
        self._bytes += size
        self._stored += stored
        while len(self._ring) > self._ring_lines or self._bytes > self._ring_bytes:
            _, size, stored = self._ring.popleft()
            self._bytes -= size
            self._stored -= stored


def _longest_line(max_bytes: int) -> int:
    return min(LINE_BYTES, max(1, max_bytes - 128))


def _parsed(written: list[bytes]) -> Iterator[list[LogLine]]:
    for start in range(0, len(written), PIECE_LINES):
        yield [_parse(line) for line in written[start : start + PIECE_LINES]]


def _parse(data: bytes) -> LogLine:
    """Return a line as it was when it was written; one that we did not write has no time."""
    text = data.decode(errors="replace")
    time, _, rest = text.partition(" ")
    source, found, said = rest.partition(" ")
    if not found or not time.endswith("Z") or source not in ("stderr", "stdout", "mcpd"):
        return LogLine("", "mcpd", text)
    return LogLine(time, source, said)
