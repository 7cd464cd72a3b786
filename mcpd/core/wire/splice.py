"""Changing some members of a JSON object alone, in its bytes."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.wire import scan
from mcpd.core.wire.envelope import LARGE_BYTES, encode, object_from, text

_decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode

_EMPTY: Final = re.compile(rb"[ \t\r\n]*+\{[ \t\r\n]*+\}[ \t\r\n]*+\Z")


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
    return _exchange(bytes(item), member, bytes(value))


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
    return _cut(bytes(item), names)


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


def elements(array: bytes, most: int = 10_001) -> list[bytes]:
    """Return the first ``most`` elements of a JSON array, each with its own bytes.

    Raises:
        ValueError: not a JSON array, or nested too deep.
    """
    return [array[start:end] for start, end in scan.elements(array, most)]


def texts(array: Raw | bytes, most: int = 1001) -> list[str] | None:
    """Return the first ``most`` elements of an array of strings; ``None`` for anything else."""
    try:
        found = [text(element) for element in elements(bytes(array), most)]
    except ValueError:
        return None
    read = [one for one in found if one is not None]
    return read if len(read) == len(found) else None


def _decoded(item: Raw | bytes) -> dict[str, Raw] | None:
    """Take a small object apart; a large one is not, for it may have millions of members."""
    if len(item) > LARGE_BYTES:
        return None
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


def _exchange(item: bytes, name: str, value: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    for found in _members(item):
        if _name(item, found) == name:
            parts += (item[at : found.value], value)
            at = found.end
    return b"".join((*parts, item[at:])) if parts else item


def _cut(item: bytes, names: Collection[str]) -> bytes:
    members = _members(item)
    is_kept = [_name(item, found) not in names for found in members]
    if all(is_kept):
        return item
    if not any(is_kept):
        return item[: members[0].start] + item[members[-1].end :]
    last = max(index for index, kept in enumerate(is_kept) if kept)
    parts: list[bytes] = []
    at = 0
    for index in range(last):
        if not is_kept[index]:
            parts.append(item[at : members[index].start])
            at = item.index(b",", members[index].end) + 1
    return b"".join((*parts, item[at : members[last].end], item[members[-1].end :]))


def _name(item: bytes, member: scan.Member) -> str | None:
    return text(item[member.start : member.name_end])


def _members(item: bytes) -> list[scan.Member]:
    """Find the members of an object; none in bytes that are no object, or one of too many."""
    try:
        return scan.members(item)
    except ValueError:
        return []
