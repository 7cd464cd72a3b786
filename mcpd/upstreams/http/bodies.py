"""Bodies of HTTP responses: compression, character sets, and the lines that the core takes."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from email.message import Message
from typing import Final

import msgspec
from msgspec import UNSET

from mcpd.core.wire import envelope
from mcpd.core.wire.framing import EDGE_BYTES, Frame, Oversized

PIECE_BYTES: Final = 256 * 1024
"""How much is decompressed at a time: a kilobyte may become a megabyte."""

_BOM: Final = b"\xef\xbb\xbf"
_UTF8: Final = ("", "utf-8", "utf8", "us-ascii", "ascii")
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32


class UnknownEncoding(ValueError):
    """A body is compressed in a way that we did not say we accept."""


class Decompressor:
    """Decompresses a body in pieces of a bounded size."""

    def __init__(self, encoding: str) -> None:
        """``encoding`` is the value of ``Content-Encoding``; raise ``UnknownEncoding``."""
        names = [name.strip().lower() for name in encoding.split(",")]
        known = [name for name in names if name not in ("", "identity")]
        if known and known not in (["gzip"], ["x-gzip"], ["deflate"]):
            raise UnknownEncoding(encoding)
        self._inner = zlib.decompressobj(_GZIP_OR_ZLIB) if known else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what ``data`` decompresses to; raise ``zlib.error`` where it is damaged."""
        if self._inner is None:
            yield data
            return
        is_full = True
        while (data or is_full) and not self._inner.eof:
            piece = self._inner.decompress(data, PIECE_BYTES)
            data, is_full = self._inner.unconsumed_tail, len(piece) == PIECE_BYTES
            if piece:
                yield piece


class ContentType:
    """The value of ``Content-Type``."""

    def __init__(self, value: str) -> None:
        message = Message()
        message["Content-Type"] = value or "application/octet-stream"
        self.name = message.get_content_type() if value else ""
        self.charset = str(message.get_content_charset() or "")

    @property
    def is_json(self) -> bool:
        """Whether it is JSON, whatever else it is called."""
        return self.name == "application/json" or self.name.endswith("+json")

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream."""
        return self.name == "text/event-stream"

    @property
    def is_text(self) -> bool:
        """Whether people can read it; HTML is a page, and no message."""
        return self.name == "text/plain" or self.is_json


def to_utf8(body: Frame, charset: str) -> Frame:
    """Return a body in UTF-8; one whose character set is unknown is taken as UTF-8."""
    if charset.lower() not in _UTF8:
        try:
            codecs.lookup(charset)
            body = bytes(body).decode(charset).encode()
        except (LookupError, UnicodeError):
            pass
    return body[len(_BOM) :] if body.startswith(_BOM) else body


def one_line(message: Frame) -> Frame:
    """Return a message without line ends: they are between tokens, since strings escape theirs."""
    if b"\n" in message or b"\r" in message:
        return message.replace(b"\n", b" ").replace(b"\r", b" ")
    return message


class _Outline(msgspec.Struct, gc=False):
    id: envelope.Bytes = UNSET
    method: envelope.Bytes = UNSET
    result: envelope.Bytes = UNSET
    error: envelope.Bytes = UNSET


_decode_outline: Final = msgspec.json.Decoder(_Outline).decode


def response_id(frame: Frame | Oversized) -> bytes | None:
    """Return the id of a response, empty for one without; ``None`` for anything else."""
    if isinstance(frame, Oversized):
        return envelope.find_id(frame.head, frame.tail, of_answer=True)
    if len(frame) > envelope.LARGE_BYTES:
        return envelope.find_id(
            bytes(frame[:EDGE_BYTES]), bytes(frame[-EDGE_BYTES:]), of_answer=True
        )
    try:
        outline = _decode_outline(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return envelope.find_id(
            bytes(frame[:EDGE_BYTES]), bytes(frame[-EDGE_BYTES:]), of_answer=True
        )
    if outline.method is not UNSET or (outline.result is UNSET and outline.error is UNSET):
        return None
    return b"" if outline.id is UNSET else bytes(outline.id)


def error_with_id(body: Frame, wire_id: int) -> bytes | None:
    """Return the JSON-RPC error in a body as the answer to a request; ``None`` without one.

    Servers that refuse a request before they have read it do not know its id.
    """
    members = envelope.object_of(bytes(body))
    error = None if members is None else members.get("error")
    details = None if error is None else envelope.object_of(error)
    if error is None or details is None or "code" not in details:
        return None
    return bytes(one_line(envelope.error(b"%d" % wire_id, error)))


def oversized(wire_id: int, size_bytes: int) -> Oversized:
    """Return an answer that is too large to be read: its beginning, its end and its size."""
    return Oversized(b'{"jsonrpc":"2.0","id":%d,"result":' % wire_id, b"}", size_bytes)


def is_whole(frame: Frame) -> bool:
    """Tell whether a frame is a message, and not the beginning of one."""
    try:
        envelope.decode(frame)
    except envelope.Malformed:
        return False
    return True
