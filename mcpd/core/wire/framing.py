"""Splits a byte stream into newline-delimited frames under a size limit."""

from __future__ import annotations

import msgspec

EDGE_BYTES = 4096
"""Bytes kept of each end of an oversized frame, to find its id there."""

LARGE_BYTES = 65536
"""Larger frames that came in several chunks are returned as the buffer itself, without a copy."""

Frame = bytes | bytearray
"""The bytes of one message without its newline; never changed, even if a ``bytearray``."""

_BOM = b"\xef\xbb\xbf"
_CR = 13


class Oversized(msgspec.Struct, frozen=True):
    """A frame over the limit, of which only both ends were kept."""

    head: bytes
    tail: bytes
    size_bytes: int


def has_many_lines(data: bytes, many: int) -> bool:
    """Tell whether a chunk has more than ``many`` newlines; stop at the first one too many."""
    at = -1
    for _ in range(many + 1):
        at = data.find(b"\n", at + 1)
        if at < 0:
            return False
    return True


class Framer:
    """Splits one peer's bytes into frames at each 0x0A.

    Linear in the bytes fed: no byte is scanned twice, and a frame is copied once. A carriage
    return before the newline, a byte order mark at the start of the stream and blank lines are left
    out. A frame of exactly ``limit_bytes`` passes; of a longer one only both ends are kept.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._size = 0  # of the partial frame, including bytes that were not kept
        self._head = b""
        self._tail = b""  # of an oversized frame; _buffer is empty then
        self._is_start = True

    def feed(self, data: bytes) -> list[Frame | Oversized]:
        """Return the frames that ``data`` completes, without their line ends."""
        if self._is_start and data:
            data = self._without_bom(data)
        size = len(data)
        if not self._size and 1 < size <= self.limit_bytes and data.find(b"\n") == size - 1:
            frame = data[:-1] if data[-2] != _CR else data[:-2]  # the usual case: one whole frame
            return [frame] if frame.strip() else []
        frames: list[Frame | Oversized] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            piece = data[start:end]
            if self._size or len(piece) > self.limit_bytes:
                self._keep(piece)
                self._finish(frames)
            elif piece and not piece.isspace():
                frames.append(piece[:-1] if piece[-1] == _CR else piece)
            start = end + 1
        if start < len(data):
            self._keep(data[start:] if start else data)
        return frames

    def partial_bytes(self) -> int:
        """Return the size of the partial frame: its newline has not come yet."""
        return self._size

    def partial_head(self) -> bytes:
        """Return the first ``EDGE_BYTES`` bytes of the partial frame."""
        return self._head or bytes(self._buffer[:EDGE_BYTES])

    def buffered_bytes(self) -> int:
        """Return how many bytes of the partial frame are in memory: few if it is oversized."""
        return len(self._buffer) + len(self._tail)

    def drop(self) -> None:
        """Drop the partial frame, at the end of the stream."""
        self._buffer, self._head, self._tail, self._size = bytearray(), b"", b"", 0

    def _without_bom(self, data: bytes) -> bytes:
        joined = bytes(self._buffer) + data if self._buffer else data
        if len(joined) < len(_BOM) and _BOM.startswith(joined):
            return data  # it may become one with the next bytes
        self._is_start = False
        if joined.startswith(_BOM):
            self._buffer = bytearray()
            self._size = 0
            return joined[len(_BOM) :]
        return data

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._head:
            self._tail = (self._tail + piece[-EDGE_BYTES:])[-EDGE_BYTES:]
            return
        self._buffer += piece  # grows where it is: the copy is spread over what comes
        if self._size > self.limit_bytes + 1:  # the last byte may be the carriage return
            self._head = bytes(self._buffer[:EDGE_BYTES])
            self._tail = bytes(self._buffer[-EDGE_BYTES:])
            self._buffer = bytearray()

    def _finish(self, frames: list[Frame | Oversized]) -> None:
        size, self._size = self._size, 0
        if self._head:
            frames.append(Oversized(self._head, self._tail, size))
            self._head = self._tail = b""
            return
        buffer, self._buffer = self._buffer, bytearray()
        if buffer.endswith(b"\r"):
            del buffer[-1:]
        if len(buffer) > self.limit_bytes:
            ends = bytes(buffer[:EDGE_BYTES]), bytes(buffer[-EDGE_BYTES:])
            frames.append(Oversized(*ends, len(buffer)))
        elif buffer and not buffer.isspace():
            frames.append(buffer if len(buffer) > LARGE_BYTES else bytes(buffer))
