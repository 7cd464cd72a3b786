"""Where the members of a JSON object lie in its bytes, and changing some of them alone."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from mcpd.core.wire.envelope import encode, object_from

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


def replace(item: Raw | bytes, member: str, value: Raw | bytes) -> bytes:
    """Return the object ``item`` with the value of its top-level ``member`` exchanged.

    Every other byte stays. Of a member that occurs twice both are exchanged, because readers
    differ in which one they believe. An object without it, and bytes that are no object, come
    back as they are.
    """
    found = _decoded(item)
    if found is not None:
        if member not in found:
            return bytes(item)
        if _is_compact(item, found):
            found[member] = Raw(value)
            return object_from(found)
    return _exchange(bytes(item), found, member, bytes(value))


def without(item: Raw | bytes, names: Collection[str]) -> bytes:
    """Return the object ``item`` without these top-level members, however often they occur.

    Every other member stays as it is, in its place; bytes that are no object come back as such.
    """
    found = _decoded(item)
    if found is not None:
        present = [name for name in names if name in found]
        if not present:
            return bytes(item)
        if _is_compact(item, found):
            for name in present:
                del found[name]
            return object_from(found)
    return _cut(bytes(item), found, names)


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


def _decoded(item: Raw | bytes) -> dict[str, Raw] | None:
    try:
        return _decode_object(item)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_compact(item: Raw | bytes, members: dict[str, Raw]) -> bool:
    """Tell whether an object is written without spaces, and each of its members once.

    No other spelling is as short, so that its length alone says so.
    """
    size = 1 + 2 * len(members)
    for name, value in members.items():
        size += len(encode(name)) + len(value)
    return size == len(item)


def _exchange(item: bytes, known: dict[str, Raw] | None, name: str, value: bytes) -> bytes:
    for found in reversed(_members(item, known)):
        if found.name == name:
            item = b"".join((item[: found.value], value, item[found.end :]))
    return item


def _cut(item: bytes, known: dict[str, Raw] | None, names: Collection[str]) -> bytes:
    members = _members(item, known)
    kept = [index for index, found in enumerate(members) if found.name not in names]
    if len(kept) == len(members):
        return item
    if not kept:
        return item[: members[0].start] + item[members[-1].end :]
    last = kept[-1]
    item = item[: members[last].end] + item[members[-1].end :]
    for index in range(last - 1, -1, -1):
        if members[index].name in names:
            after = item.index(b",", members[index].end) + 1
            item = item[: members[index].start] + item[after:]
    return item


def _members(item: bytes, known: dict[str, Raw] | None) -> list[_Member]:
    """Find the members of an object; none in bytes that are no object."""
    found = None if known is None else _fast_members(item, known)
    if found is not None:
        return found
    try:
        source = item.decode()
        return _in_bytes(source, list(_slow_members(source)))
    except (ValueError, RecursionError):
        return []


def _in_bytes(source: str, members: list[_Member]) -> list[_Member]:
    if source.isascii():
        return members
    found: list[_Member] = []
    char = byte = 0
    for name, *places in members:
        moved: list[int] = []
        for place in places:
            byte += len(source[char:place].encode())
            char = place
            moved.append(byte)
        found.append(_Member(name, *moved))
    return found


def _fast_members(item: bytes, members: dict[str, Raw]) -> list[_Member] | None:
    """Find members by walking over the values that msgspec found; ``None`` where they disagree.

    They disagree when a member occurs twice: the decoder tells only the last. A value's length is
    known without looking into it, so that the walk costs a few steps for each member however
    large the schema is.
    """
    found: list[_Member] = []
    at = 0
    for name, value in members.items():
        head = _MEMBER.match(item, at)
        if head is None or head[1] != encode(name):
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
