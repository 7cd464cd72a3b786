"""Splits what a child writes to stderr into lines of text, within a bound."""

from __future__ import annotations

from collections.abc import Callable

LINE_BYTES = 64 * 1024
"""The most that is read of a line: eight times what a log keeps of it."""


class LineSplitter:
    """Cuts a stream into lines.

    Invariant: never holds more than ``limit`` bytes, and reads each byte once.
    """

    def __init__(
        self, limit: int = LINE_BYTES, *, mask_cut: Callable[[str], str] = lambda text: text
    ) -> None:
        """``mask_cut`` hides the secrets in the beginning of a line that was too long."""
        self._limit = limit
        self._mask_cut = mask_cut
        self._parts: list[bytes] = []
        self._size = 0
        self._dropped = 0

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that ``data`` completes, without their ends (``\\n`` or ``\\r\\n``)."""
        *complete, rest = data.split(b"\n")
        lines = []
        for each in complete:
            self._keep(each)
            lines.append(self._take())
        self._keep(rest)
        return lines

    def end(self) -> list[str]:
        """Return the last line where it has no newline; the stream has ended."""
        return [self._take()] if self._parts else []

    def _keep(self, data: bytes) -> None:
        kept = data[: self._limit - self._size]
        if kept:
            self._parts.append(kept)
            self._size += len(kept)
        self._dropped += len(data) - len(kept)

    def _take(self) -> str:
        text = b"".join(self._parts).removesuffix(b"\r").decode(errors="replace")
        if self._dropped:
            text = f"{self._mask_cut(text)} […{self._dropped} more bytes]"
        self._parts, self._size, self._dropped = [], 0, 0
        return text
