"""Finds the offsets of the members of a JSON object, and of the elements of an array.

The decoder skips the values in C without making objects: a pass over 64 MiB takes as long as
validating it. Each member or element that is found takes time in Python, so their number is
limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

MOST_PARTS: Final = 1000
"""Members of an object, or elements of an array, that are found at most."""

_skip: Final = msgspec.json.Decoder(Raw).decode
_PROBLEM: Final = re.compile(r"(?:JSON is malformed: )?(.+) \(byte ([0-9]+)\)\Z")
_WITHOUT_SURROGATES: Final = bytes.maketrans(b"dD", b"cC")
"""Makes ``\\uc800`` of ``\\ud800``. No other text becomes valid: ``d`` is in strings alone."""

_blanks: Final = re.compile(rb"[ \t\r\n]*").match
_BLANKS: Final = b" \t\r\n"
_COLON, _COMMA = b":,"
_QUOTE: Final[bytes] = b'"'

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


class TooDeep(ValueError):
    """The text is nested deeper than the decoder allows; it may be JSON."""


class TooMany(ValueError):
    """The text has more than ``MOST_PARTS`` parts; it may be JSON."""


class _Refused(ValueError):
    """The decoder refused a value."""


class Member(NamedTuple):
    """The offsets of a member: its name with quotes, then its value."""

    start: int
    name_end: int
    value: int
    end: int


def members(data: Raw | bytes | bytearray, *, is_refused: bool = False) -> list[Member]:
    """Return the offsets of an object's members in order, including repeated names.

    With ``is_refused``, the decoder has refused the text already.

    Raises:
        ValueError: the text is not a JSON object; ``TooDeep`` or ``TooMany`` if it may be one.
    """
    find = partial(_split, brackets=b"{}", find=_member, most=MOST_PARTS + 1)
    found = _tolerantly(find, data, is_refused)
    if len(found) > MOST_PARTS:
        raise TooMany(f"more than {MOST_PARTS} members")
    return found


def elements(data: Raw | bytes | bytearray, most: int) -> list[tuple[int, int]]:
    """Return the start and the end of each of the first ``most`` elements of an array.

    The text after them is not checked.

    Raises:
        ValueError: the text is not a JSON array; ``TooDeep`` if it may be one.
    """
    return _tolerantly(partial(_split, brackets=b"[]", find=_element, most=most), data)


def check(data: Raw | bytes | bytearray) -> None:
    """Raise ``ValueError`` if the text is not JSON, ``TooDeep`` if it may be."""
    _tolerantly(_check, data)


def _tolerantly(
    find: Callable[[memoryview], _Found], data: Raw | bytes | bytearray, is_refused: bool = False
) -> _Found:
    """Call ``find``; if it fails, again with escapes of surrogates replaced.

    JSON allows lone surrogates, and the decoder refuses them. The replacements are as long, so the
    offsets stay the same.
    """
    try:
        if not is_refused:
            try:
                return find(memoryview(data))
            except _Refused:
                if b"\\" not in bytes(data):
                    raise
        return find(memoryview(bytes(data).translate(_WITHOUT_SURROGATES)))
    except RecursionError:
        raise TooDeep("nested too deep") from None


def _split(
    view: memoryview,
    brackets: bytes,
    find: Callable[[memoryview, int], tuple[_Part, int]],
    most: int,
) -> list[_Part]:
    opening, closing = brackets[:1], brackets[1:]
    at = _past_blanks(view, 0)
    if view[at : at + 1] != opening:
        raise ValueError(f"expected {opening.decode()!r} at byte {at}")
    at = _past_blanks(view, at + 1)
    found: list[_Part] = []
    if view[at : at + 1] != closing:
        while True:
            part, at = find(view, at)
            found.append(part)
            if len(found) == most:
                return found
            if view[at : at + 1] == closing:
                break
            if view[at] != _COMMA:
                raise ValueError(f"expected ',' or {closing.decode()!r} at byte {at}")
            at = _past_blanks(view, at + 1)
    at = _past_blanks(view, at + 1)
    if at != len(view):
        raise ValueError(f"something follows at byte {at}")
    return found


def _check(view: memoryview) -> None:
    try:
        _skip(view)
    except msgspec.MsgspecError as error:
        raise _Refused(str(error)) from None


def _member(view: memoryview, at: int) -> tuple[Member, int]:
    if view[at : at + 1] != _QUOTE:
        raise ValueError(f"expected a member name at byte {at}")
    colon = _end_of(view, at)
    if view[colon] != _COLON:
        raise ValueError(f"expected ':' at byte {colon}")
    value = _past_blanks(view, colon + 1)
    then = _end_of(view, value)
    name_end, end = _without_blanks(view, at, colon), _without_blanks(view, value, then)
    return Member(at, name_end, value, end), then


def _element(view: memoryview, at: int) -> tuple[tuple[int, int], int]:
    then = _end_of(view, at)
    return (at, _without_blanks(view, at, then)), then


def _end_of(view: memoryview, at: int) -> int:
    """Return the offset of the next character that is no blank after the value at ``at``.

    The decoder takes a single value, and its error names the offset of anything that follows it.
    """
    try:
        _skip(view[at:])
    except msgspec.MsgspecError as error:
        found = _PROBLEM.match(str(error))
        if found is None:
            raise _Refused("it is cut off") from None
        then = at + int(found[2]) - 1
        if found[1] != "trailing characters":
            raise _Refused(f"{found[1]} at byte {then}") from None
        return then
    raise ValueError("it is cut off")


def _past_blanks(view: memoryview, at: int) -> int:
    found = _blanks(view, at)
    return at if found is None else found.end()


def _without_blanks(view: memoryview, start: int, end: int) -> int:
    if view[end - 1] not in _BLANKS:
        return end
    return start + len(bytes(view[start:end]).rstrip(_BLANKS))
