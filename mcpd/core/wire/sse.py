"""Splits an event stream into events, incrementally and under a size limit.

Source: the HTML standard, 9.2.6 "Interpreting an event stream". Lines end in CR, LF or CRLF, and a
chunk may end anywhere.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mcpd.core.wire.framing import EDGE_BYTES, Frame, Oversized

FIELD_BYTES: Final = 4096
"""The longest ``id`` or ``event``. A longer one is ignored."""

_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 10
_SPACE: Final = 32
_PREFIX_BYTES: Final = len(b"data: ")


class Event(msgspec.Struct, frozen=True):
    """An event with data; ``data`` is never changed, even if it is a ``bytearray``."""

    data: Frame | Oversized
    name: str = "message"


class SseParser:
    """Parses one event stream.

    Linear in the bytes fed. Events without data are left out. An event of exactly ``limit_bytes``
    of data passes; of a longer one only both ends are kept.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.last_id = ""
        """What ``Last-Event-ID`` says after the last event that was complete."""
        self.retry_ms: int | None = None
        """The time before the stream is opened again, in milliseconds, if the stream has said."""
        self._start: bytes | None = b""
        """The first bytes, while they may be a byte order mark."""
        self._is_after_cr = False
        self._line = _Text(max(limit_bytes, FIELD_BYTES) + _PREFIX_BYTES)
        self._data = _Text(limit_bytes)
        self._has_data = False
        self._name = ""
        self._id: str | None = None

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that ``data`` completes."""
        if self._start is not None:
            data = self._without_bom(data)
        if self._is_after_cr and data:
            self._is_after_cr = False
            if data[0] == _LF:
                data = data[1:]
        events: list[Event] = []
        start, size = 0, len(data)
        lf, cr = data.find(b"\n"), data.find(b"\r")
        while lf >= 0 or cr >= 0:
            if cr < 0 or 0 <= lf < cr:
                end, after = lf, lf + 1
            else:
                end, after = cr, cr + 1
                self._is_after_cr = after == size
                if lf == after:
                    after += 1
            self._end_line(data[start:end], events)
            start = after
            if 0 <= lf < start:
                lf = data.find(b"\n", start)
            if 0 <= cr < start:
                cr = data.find(b"\r", start)
        if start < size:
            self._line.add(data[start:] if start else data)
        return events

    def end(self) -> list[Event]:
        """Return the event that the end of the stream has cut off, as if it were complete.

        The standard drops it. Servers that end a stream without the last blank line mean it.
        """
        events: list[Event] = []
        if self._line.size:
            self._end_line(b"", events)
        self._dispatch(events)
        return events

    def unfinished(self) -> tuple[bytes, int]:
        """Return the beginning of the event that is not complete, and its bytes so far."""
        head = self._data.head() or self._line.head()
        return head, self._data.size + self._line.size

    def _without_bom(self, data: bytes) -> bytes:
        joined = (self._start or b"") + data
        if len(joined) < len(_BOM) and _BOM.startswith(joined):
            self._start = joined
            return b""
        self._start = None
        return joined.removeprefix(_BOM)

    def _end_line(self, piece: bytes, events: list[Event]) -> None:
        """Handle a line that ends with ``piece``."""
        line: Frame | Oversized = piece
        if self._line.size:
            self._line.add(piece)
            line = self._line.take()
        if isinstance(line, Oversized):
            if line.head.startswith(b"data:"):
                at = _PREFIX_BYTES if line.head[5] == _SPACE else _PREFIX_BYTES - 1
                self._add_data(line.head[at:])
                self._data.skip(line.size_bytes - len(line.head), line.tail)
            return
        if not line:
            self._dispatch(events)
            return
        at = line.find(b":", 0, _PREFIX_BYTES)  # every known name is shorter
        if at < 0:
            if len(line) < _PREFIX_BYTES:
                self._field(bytes(line), b"")
        elif at > 0:
            begin = at + 2 if line[at + 1 : at + 2] == b" " else at + 1
            self._field(bytes(line[:at]), line[begin:])

    def _field(self, name: bytes, value: Frame) -> None:
        match name:
            case b"data":
                self._add_data(value)
            case b"event" if len(value) <= FIELD_BYTES:
                self._name = value.decode("utf-8", "replace")
            case b"id" if len(value) <= FIELD_BYTES and b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < FIELD_BYTES:
                self.retry_ms = int(value)

    def _add_data(self, value: Frame) -> None:
        if self._has_data:
            self._data.add(b"\n")
        self._has_data = True
        self._data.add(value)

    def _dispatch(self, events: list[Event]) -> None:
        if self._id is not None:
            self.last_id, self._id = self._id, None
        if self._has_data:
            data = self._data.take()
            if data:
                events.append(Event(data, self._name or "message"))
        self._has_data, self._name = False, ""


class _Text:
    """Bytes that are collected; of more than ``limit_bytes`` only both ends."""

    __slots__ = ("_buffer", "_head", "_limit", "_tail", "size")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._clear()

    def _clear(self) -> None:
        self._buffer: Frame = b""
        self._head = self._tail = b""
        self.size = 0

    def add(self, piece: Frame) -> None:
        self.size += len(piece)
        if self._head:
            self._tail = (self._tail + bytes(piece[-EDGE_BYTES:]))[-EDGE_BYTES:]
            return
        if not self._buffer:
            self._buffer = piece  # the usual case: one piece is all of it
        else:
            if not isinstance(self._buffer, bytearray):
                self._buffer = bytearray(self._buffer)
            self._buffer += piece
        if self.size > self._limit:
            self._cut()

    def skip(self, size: int, tail: bytes) -> None:
        """Add ``size`` bytes that were not kept, but for the ``tail`` of them."""
        self.size += size
        if not self._head:
            self._cut()
        self._tail = tail

    def _cut(self) -> None:
        self._head = bytes(self._buffer[:EDGE_BYTES])
        self._tail = bytes(self._buffer[-EDGE_BYTES:])
        self._buffer = b""

    def head(self) -> bytes:
        """Return the first bytes."""
        return self._head or bytes(self._buffer[:EDGE_BYTES])

    def take(self) -> Frame | Oversized:
        """Return and forget what was collected."""
        found: Frame | Oversized = self._buffer
        if self._head:
            found = Oversized(self._head, self._tail, self.size)
        self._clear()
        return found
