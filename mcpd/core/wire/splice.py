"""Where the members of a JSON object lie in its bytes, and changing some of them alone."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import AnyStr, Final, NamedTuple

import msgspec
from msgspec import Raw

from mcpd.core.wire.envelope import quote

_decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def _as_it_is(number: str) -> str:
    return number  # Python would refuse one of more than 4300 digits


_raw_decode: Final = json.JSONDecoder(parse_int=_as_it_is, parse_float=_as_it_is).raw_decode

# The pattern of a string has no alternatives that could both match: no backtracking.
_MEMBER: Final = re.compile(
    rb'[ \t\r\n]*[{,][ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:[ \t\r\n]*'
)
_END: Final = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*\Z")
_EMPTY: Final = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*\Z")
_SPACE: Final = frozenset(" \t\r\n")


class _Member(NamedTuple):
    """Where a member begins, where its value does, and where both end."""

    name: str
    start: int
    value: int
    end: int


def replace(item: bytes, member: str, value: bytes) -> bytes:
    """Return the object ``item`` with the value of its top-level ``member`` exchanged.

    Every other byte stays. Of a member that occurs twice both are exchanged, because readers
    differ in which one they believe. An object without it, and bytes that are no object, come
    back as they are.
    """
    members = _fast_members(item)
    if members is not None:
        return _exchange(item, members, member, value)
    try:
        source = item.decode()
        return _exchange(source, list(_slow_members(source)), member, value.decode()).encode()
    except (ValueError, RecursionError):
        return item


def without(item: bytes, names: Collection[str]) -> bytes:
    """Return the object ``item`` without these top-level members, however often they occur.

    Every other member stays as it is, in its place; bytes that are no object come back as such.
    """
    members = _fast_members(item)
    if members is not None:
        return _cut(item, members, names)
    try:
        source = item.decode()
        return _cut(source, list(_slow_members(source)), names).encode()
    except (ValueError, RecursionError):
        return item


def in_front(item: Raw | bytes, members: bytes) -> bytes:
    """Return the object ``item`` with further members before its own.

    ``members`` is the inside of an object: ``"a":1,"b":2``. Nothing of the item is looked at but
    its first brace, so that a name that it has already will occur twice.
    """
    view = memoryview(item)
    start = bytes(view[:1])
    if start != b"{":
        item = bytes(item).lstrip(b" \t\r\n")
        view = memoryview(item)
    if is_empty(item):
        return b"{%b}" % members
    return b"".join((b"{", members, b",", view[1:]))


def is_empty(item: Raw | bytes) -> bool:
    """Tell whether this is an object without members."""
    return _EMPTY.match(item) is not None


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


def _exchange(text: AnyStr, members: list[_Member], name: str, value: AnyStr) -> AnyStr:
    for found in reversed(members):
        if found.name == name:
            text = text[: found.value] + value + text[found.end :]
    return text


def _cut(text: AnyStr, members: list[_Member], names: Collection[str]) -> AnyStr:
    kept = [index for index, found in enumerate(members) if found.name not in names]
    if len(kept) == len(members):
        return text
    if not kept:
        return text[: members[0].start] + text[members[-1].end :]
    last = kept[-1]
    text = text[: members[last].end] + text[members[-1].end :]
    for index in range(last - 1, -1, -1):
        if members[index].name in names:
            text = text[: members[index].start] + text[members[index + 1].start :]
    return text


def _fast_members(item: bytes) -> list[_Member] | None:
    """Find members by walking over the values that msgspec found; ``None`` where they disagree.

    They disagree when a member occurs twice (the decoder tells only the last) and when msgspec
    cannot read the object at all. A value's length is known without looking into it, so that the
    walk costs a few steps for each member however large the schema is.
    """
    try:
        members = _decode_object(item)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    found: list[_Member] = []
    at = 0
    for name, value in members.items():
        head = _MEMBER.match(item, at)
        if head is None or head[1] != quote(name):
            return None
        start = head.end()
        if not item.startswith(value, start):
            return None
        at = start + len(value)
        found.append(_Member(name, head.start(1), start, at))
    return found if not members or _END.match(item, at) else None


def _slow_members(source: str) -> Iterator[_Member]:
    at = _past(source, 0, "{")
    while source[at : at + 1] != "}":
        start = at
        name, at = _raw_decode(source, at)
        at = _past(source, at, ":")
        end = _raw_decode(source, at)[1]
        yield _Member(name, start, at, end)
        at = _next(source, end, "}")


def _elements(source: str) -> Iterator[tuple[int, int]]:
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
