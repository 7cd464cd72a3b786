"""Where the members of a JSON object lie in its bytes, and replacing one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import AnyStr, Final

import msgspec
from msgspec import Raw

from mcpd.core.wire.envelope import quote

_decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raw_decode: Final = json.JSONDecoder().raw_decode

# The pattern of a string has no alternatives that could both match: no backtracking.
_MEMBER: Final = re.compile(
    rb'[ \t\r\n]*[{,][ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:[ \t\r\n]*'
)
_END: Final = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*\Z")
_SPACE: Final = frozenset(" \t\r\n")

Span = tuple[int, int]


def replace(item: bytes, member: str, value: bytes) -> bytes:
    """Return the object ``item`` with the value of its top-level ``member`` exchanged.

    Every other byte stays. Of a member that occurs twice both are exchanged, because readers
    differ in which one they believe. An object without it, and bytes that are no object, come
    back as they are.
    """
    spans = _fast_spans(item, member)
    if spans is not None:
        return _exchange(item, spans, value)
    try:
        source = item.decode()
        return _exchange(source, _slow_spans(source, member), value.decode()).encode()
    except (ValueError, RecursionError):
        return item


def elements(array: bytes) -> list[bytes]:
    """Split a JSON array into its elements, each with its own bytes: the tolerant second path.

    Raises:
        ValueError: not a JSON array, or nested too deep.
    """
    source = array.decode()
    try:
        return [source[start:end].encode() for start, end in _elements(source)]
    except RecursionError:
        raise ValueError("nested too deep") from None


def _exchange(text: AnyStr, spans: list[Span], value: AnyStr) -> AnyStr:
    for start, end in reversed(spans):
        text = text[:start] + value + text[end:]
    return text


def _fast_spans(item: bytes, member: str) -> list[Span] | None:
    """Find the member by walking over the values that msgspec found; ``None`` where they disagree.

    They disagree when a member occurs twice (the decoder tells only the last) and when msgspec
    cannot read the object at all. A value's length is known without looking into it, so that the
    walk costs a few steps for each member however large the schema is.
    """
    try:
        members = _decode_object(item)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    spans: list[Span] = []
    at = 0
    for name, value in members.items():
        head = _MEMBER.match(item, at)
        at = head.end() + len(value) if head else -1
        if head is None or head[1] != quote(name) or item[head.end() : at] != bytes(value):
            return None
        if name == member:
            spans.append((head.end(), at))
    return spans if not members or _END.match(item, at) else None


def _slow_spans(source: str, member: str) -> list[Span]:
    spans: list[Span] = []
    at = _past(source, 0, "{")
    while source[at : at + 1] != "}":
        name, at = _raw_decode(source, at)
        at = _past(source, at, ":")
        end = _raw_decode(source, at)[1]
        if name == member:
            spans.append((at, end))
        at = _next(source, end, "}")
    return spans


def _elements(source: str) -> Iterator[Span]:
    at = _past(source, 0, "[")
    while source[at : at + 1] != "]":
        end = _raw_decode(source, at)[1]
        yield at, end
        at = _next(source, end, "]")


def _next(source: str, at: int, closing: str) -> int:
    at = _after_space(source, at)
    return at if source[at : at + 1] == closing else _past(source, at, ",")


def _past(source: str, at: int, mark: str) -> int:
    at = _after_space(source, at)
    if source[at : at + 1] != mark:
        raise ValueError(f"expected {mark!r} at character {at}")
    return _after_space(source, at + 1)


def _after_space(source: str, at: int) -> int:
    while source[at : at + 1] in _SPACE:
        at += 1
    return at
