"""Splitting a stream of bytes into frames, one for each line."""

from __future__ import annotations

JOINED_BYTES = 1 << 18
"""Frames up to this size are joined; larger ones stay in chunks, which need less memory."""

BOM = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{", b"[\0", b"\0[")
"""How a message in UTF-16 begins, with a byte order mark or without."""


def without_bom(chunks: list[bytes]) -> list[bytes]:
    """Return a frame without the byte order mark that Windows runtimes write before a message."""
    if chunks[0][:1] != BOM[:1]:
        return chunks
    if len(chunks[0]) < len(BOM):
        chunks = [b"".join(chunks)]
    return [chunks[0].removeprefix(BOM), *chunks[1:]]


class Frames:
    """Splits a stream after each newline, wherever its pieces were cut. Blank lines are frames.

    A frame over ``limit`` bytes is dropped, except for its first and last chunk: these are
    appended to ``cut``, because the id of a message is usually in one of them.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.cut: list[tuple[bytes, bytes]] = []
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> list[list[bytes]]:
        """Return the frames that ``data`` completes, newline included, each as its chunks."""
        if not self._size and data.find(b"\n") + 1 == len(data) > 0:
            return [[data]]
        frames: list[list[bytes]] = []
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            if self._size:
                self._keep(data[start:end])
                frame = self._take()
                if frame:
                    frames.append(frame)
            else:
                frames.append([data[start:end]])
            start = end
        if start < len(data):
            self._keep(data[start:])
        return frames

    def rest(self) -> list[bytes]:
        """Return the chunks of the unfinished last line."""
        return [] if self._is_skipping else self._chunks

    def _keep(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._limit is not None and self._size > self._limit:
            self._is_skipping = True
            self._chunks = [self._chunks[0] if self._chunks else chunk, chunk]
        else:
            self._chunks.append(chunk)

    def _take(self) -> list[bytes]:
        chunks, size, is_skipping = self._chunks, self._size, self._is_skipping
        self._chunks, self._size, self._is_skipping = [], 0, False
        if is_skipping:
            self.cut.append((chunks[0], chunks[-1]))
            return []
        return [b"".join(chunks)] if size <= JOINED_BYTES else chunks
