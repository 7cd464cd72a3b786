"""Changes single members of a JSON object in its bytes; every other byte stays the same."""

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
    """Return the object ``item`` with another value for its top-level ``member``.

    If the member occurs twice, both are replaced, because parsers differ in which one they use. An
    object without the member, and bytes that are no object, are returned unchanged.
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
    """Return the object ``item`` without these top-level members, repeated ones included.

    Bytes that are no object are returned unchanged.
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
    """Return the object ``item`` with more members before its own.

    ``members`` is the inside of an object: ``"a":1,"b":2``. The members of ``item`` are not read:
    a name that it has already occurs twice in the result.
    """
    view = memoryview(item)
    start = bytes(view[:1])
    if start != b"{":
        item = bytes(item).lstrip(b" \t\r\n")
        view = memoryview(item)
    if is_empty(item):
        return b"{%b}" % members
    return b"".join((b"{", members, b",", view[1:]))


def names_of(item: Raw | bytes) -> Collection[str] | None:
    """Return the names of an object's members, where that is quick.

    ``None`` for a large object, one that is written with spaces, or with a name twice.
    """
    found = _decoded(item)
    return found if found is not None and _is_compact(item, found) else None


def is_empty(item: Raw | bytes) -> bool:
    """Tell whether ``item`` is an object without members."""
    return _EMPTY.match(item) is not None


def elements(array: bytes, most: int = 10_001) -> list[bytes]:
    """Return the first ``most`` elements of a JSON array, each with its own bytes.

    Raises:
        ValueError: ``array`` is not a JSON array, or is nested too deep.
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
    """Decode a small object. A large one may have millions of members, so return ``None``."""
    if len(item) > LARGE_BYTES:
        return None
    try:
        return _decode_object(item)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_compact(item: Raw | bytes, members: dict[str, Raw]) -> bool:
    """Tell whether an object is written without spaces and without repeated members.

    No other spelling is as short, so its length is enough to tell.
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
    """Return the members of an object; none if the bytes are no object, or it has too many."""
    try:
        return scan.members(item)
    except ValueError:
        return []
