"""What a server says beside its protocol, and what is said about it: kept, masked, followed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from mcpd.supervise.logfile import LogFile

LINE_BYTES = 8 * 1024
"""Of a longer line the rest is not kept."""

RING_LINES = 1000
RING_BYTES = 256 * 1024

SECRET_CHARACTERS = 8
"""A line of a secret of several lines is masked from this length on."""

MASK = "***"


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
    grows beyond its bounds. Trouble with the disk is counted, not raised: servers run on.
    """

    def __init__(
        self,
        path: str,
        *,
        max_bytes: int = 5 * 1024 * 1024,
        backups: int = 3,
        secrets: Iterable[str] = (),
        ring_lines: int = RING_LINES,
        ring_bytes: int = RING_BYTES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare; the file is opened at the first line.

        ``max_bytes`` for each of the file and its ``backups`` older parts.
        """
        self._file = LogFile(path, max_bytes=max_bytes, backups=backups)
        self._line_bytes = min(LINE_BYTES, max(1, max_bytes - 128))
        self._ring: deque[tuple[LogLine, int, bool]] = deque()
        """Each line with its size and whether it is in the file too."""
        self._ring_lines, self._ring_bytes = ring_lines, ring_bytes
        self._bytes = 0
        self._stored = 0
        """How many lines of the ring are in the file."""
        self._followers: list[Callable[[LogLine], None]] = []
        self._now = now
        self._secrets: list[str] = []
        self.set_secrets(secrets)
        self.lost = 0
        """Lines that could not be written to the file."""

    def set_secrets(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on; of one with several lines each line by itself too."""
        known = {secret for secret in secrets if secret}
        for secret in list(known):
            known.update(part for part in secret.split("\n") if len(part) >= SECRET_CHARACTERS)
        # The longest first: a secret that contains another leaves no rest of itself.
        self._secrets = sorted(known, key=len, reverse=True)

    def mask(self, text: str) -> str:
        """Return ``text`` without the secrets that are known of this server."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def add(self, source: str, text: str) -> None:
        """Add what ``source`` (``stderr``, ``stdout``, ``mcpd``) said."""
        self.add_lines(source, (text,))

    def add_lines(self, source: str, texts: Iterable[str]) -> None:
        """Add lines that came together: one time, one write. Never raises for the disk."""
        time = self._now().astimezone(UTC).isoformat(timespec="milliseconds")
        time = time.removesuffix("+00:00") + "Z"
        lines = [
            LogLine(time, source, self._cut(part))
            for text in texts
            for part in self.mask(text).split("\n")
        ]
        encoded = [
            f"{line.time} {line.source} {line.text}\n".encode(errors="replace") for line in lines
        ]
        stored = self._file.append(encoded) if encoded else 0
        self.lost += len(lines) - stored
        for number, (line, data) in enumerate(zip(lines, encoded, strict=True)):
            self._remember(line, len(data), number < stored)
            for follower in list(self._followers):
                follower(line)

    def tail(self, count: int) -> list[LogLine]:
        """Return the newest ``count`` lines, or all there are, the oldest first.

        More than memory holds are read from the file: at most its bounds, a few milliseconds
        for each megabyte.
        """
        ring = [line for line, _, _ in self._ring]
        missing = count - len(ring)
        if missing <= 0:
            return ring[-count:] if count > 0 else []
        written = self._file.last(missing + self._stored)
        older = written[: max(0, len(written) - self._stored)][-missing:]
        return [_parse(line) for line in older] + ring

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


def _parse(data: bytes) -> LogLine:
    """Return a line as it was when it was written; one that we did not write has no time."""
    text = data.decode(errors="replace")
    time, _, rest = text.partition(" ")
    source, found, said = rest.partition(" ")
    if not found or not time.endswith("Z") or source not in ("stderr", "stdout", "mcpd"):
        return LogLine("", "mcpd", text)
    return LogLine(time, source, said)
