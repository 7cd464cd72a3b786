"""Newline-delimited frames out of a byte stream, whatever the chunking, under a size limit."""

from __future__ import annotations

import msgspec

EDGE_BYTES = 4096
"""How much is kept of each end of an oversized frame, for finding its id. Pieces under this size
are gathered before they are kept: a peer that writes byte by byte costs no more than others."""

_BOM = b"\xef\xbb\xbf"


class Oversized(msgspec.Struct, frozen=True):
    """A frame over the limit: it was skipped, and only its ends were kept."""

    head: bytes
    tail: bytes
    size_bytes: int


def has_many_lines(data: bytes, many: int) -> bool:
    """Tell whether a chunk ends more lines than ``many``; looks no further than it must."""
    at = -1
    for _ in range(many + 1):
        at = data.find(b"\n", at + 1)
        if at < 0:
            return False
    return True


class Framer:
    """Cuts one peer's bytes into frames at 0x0A alone.

    Linear in the bytes fed: nothing is scanned twice, and a frame is joined once. A carriage
    return before the newline, a byte order mark at the very start and blank lines are tolerated.
    A frame of exactly ``limit_bytes`` passes; of a longer one only its ends are ever buffered.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._parts: list[bytes | bytearray] = []
        self._size = 0  # of the frame that is under way, dropped bytes included
        self._head = b""
        self._tail = b""  # of an oversized frame; _parts is empty then
        self._is_start = True

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the frames that ``data`` completes, without their line ends."""
        if self._is_start and data:
            data = self._without_bom(data)
        size = len(data)
        if not self._size and 1 < size <= self.limit_bytes and data.find(b"\n") == size - 1:
            frame = data[:-1] if data[-2] != 13 else data[:-2]  # the usual case: one whole frame
            return [frame] if frame.strip() else []
        frames: list[bytes | Oversized] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end] if start or end < len(data) else data)
            self._finish(frames)
            start = end + 1
        if start < len(data):
            self._keep(data[start:] if start else data)
        return frames

    def pending(self) -> int:
        """Bytes of the frame that has begun and not ended."""
        return self._size

    def _without_bom(self, data: bytes) -> bytes:
        joined = b"".join((*self._parts, data)) if self._parts else data
        if len(joined) < len(_BOM) and _BOM.startswith(joined):
            return data  # it may still become one; settled with the next bytes
        self._is_start = False
        if joined.startswith(_BOM):
            self._parts.clear()
            self._size = 0
            return joined[len(_BOM) :]
        return data

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._head:
            self._tail = (self._tail + piece[-EDGE_BYTES:])[-EDGE_BYTES:]
            return
        last = self._parts[-1] if self._parts else None
        if len(piece) >= EDGE_BYTES:
            self._parts.append(piece)
        elif isinstance(last, bytearray):
            last += piece
        else:
            self._parts.append(bytearray(piece) if last is not None else piece)
        if self._size > self.limit_bytes + 1:  # the one more may be the carriage return
            seen = 0
            edge: list[bytes | bytearray] = []
            for part in self._parts:
                edge.append(part[: EDGE_BYTES - seen])
                seen += len(edge[-1])
                if seen >= EDGE_BYTES:
                    break
            self._head = b"".join(edge)
            self._tail = b"".join(part[-EDGE_BYTES:] for part in self._parts[-2:])[-EDGE_BYTES:]
            self._parts.clear()

    def _finish(self, frames: list[bytes | Oversized]) -> None:
        size, self._size = self._size, 0
        if self._head:
            frames.append(Oversized(self._head, self._tail, size))
            self._head = self._tail = b""
            return
        frame = bytes(self._parts[0]) if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        if frame.endswith(b"\r"):
            frame = frame[:-1]
        if len(frame) > self.limit_bytes:
            frames.append(Oversized(frame[:EDGE_BYTES], frame[-EDGE_BYTES:], len(frame)))
        elif frame and not frame.isspace():
            frames.append(frame)
