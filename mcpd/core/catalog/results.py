"""Removes what nobody can see from the results of calls, however long they are.

The work is done in steps of some milliseconds at most: a thread that does it lets others run in
between. Every byte outside the texts stays as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from typing import Final

from mcpd.core.catalog.sanitise import (
    Level,
    Path,
    Removed,
    defused,
    has_unseen,
    is_text_of_result,
    quoted,
    without_invisible,
)

STEP_BYTES: Final = 16 * 1024
"""Bytes of a text that are cleaned in one step."""

_MARKS: Final = (b"\\u", b"\\b", b"\\f", b"\\r", b"\x7f")
_STRICT_MARKS: Final = (b"<", b"[")
_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_COLON: Final = re.compile(rb"\s*:")
_ALNUM: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_LETTERS: Final = re.compile(rb"(?<=[\xe3-\xed][\x80-\xbf]{2})(?=[\xe3-\xed])")
"""Between two letters of Chinese, Japanese or Korean, in UTF-8."""
_CHARACTERS: Final = re.compile(
    rb"(?<=[\x80-\xbf])(?=[\xc2-\xf4])|(?<=[!-\[\]-~]{12})(?=[!-\[\]-~])"
)
"""Between two that are not ASCII, or that are no part of an escape."""
_MOST_OPEN: Final = 10_000  # objects and arrays around a text
_TOKENS: Final = 512  # of the structure in one step


def is_proven_clean(raw: bytes, level: Level = "invisible") -> bool:
    """Tell whether bytes have nothing to remove; ``False`` where that takes a closer look."""
    marks = (*_MARKS, *_STRICT_MARKS) if level == "strict" else _MARKS
    return raw.isascii() and not any(mark in raw for mark in marks)


def clean_at_once(raw: bytes, level: Level, removed: Removed) -> bytes:
    """Return a result whose texts are clean."""
    steps = cleaning(raw, level, removed)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: bytes = end.value
            return found


def cleaning(raw: bytes, level: Level, removed: Removed) -> Generator[None, None, bytes]:
    """Clean a result step by step; the generator returns it.

    What is no JSON that can be read is returned as it is.
    """
    if is_proven_clean(raw, level):
        return raw
    kept: list[bytes] = []
    at = 0
    for count, (begin, end, path) in enumerate(_texts(raw)):
        if count % _TOKENS == _TOKENS - 1:
            yield
        if begin < 0 or not is_text_of_result(path):
            continue
        for first, last in _pieces(raw, begin, end):
            piece = raw[first:last]
            if not is_proven_clean(piece, level):
                found = _clean_piece(piece, level, removed)
                if found is not None:
                    kept += (raw[at:first], found)
                    at = last
            if last - first >= STEP_BYTES:
                yield
    return b"".join((*kept, raw[at:])) if kept else raw


def _clean_piece(piece: bytes, level: Level, removed: Removed) -> bytes | None:
    """Return the inside of a JSON string without what is removed; ``None`` if nothing is."""
    try:
        text = json.loads(b'"%b"' % piece, strict=False)
    except ValueError:
        return None
    found = without_invisible(text, removed) if has_unseen(text) else text
    if level == "strict":
        found = defused(found, removed)
    return None if found == text else quoted(found)[1:-1].encode()


def _texts(raw: bytes) -> Iterator[tuple[int, int, Path]]:
    """Yield the inside of each string value, and its path; -1 for each other mark."""
    around: list[tuple[bool, Path]] = []
    is_object, name = False, ""
    path: Path = ()
    position = 0
    while (match := _STRUCTURE.search(raw, position)) is not None:
        position = match.end()
        mark = match[0]
        if mark == b'"':
            end = _end_of_string(raw, position)
            if end < 0:
                return
            begin, position = position, end + 1
            if is_object and _COLON.match(raw, position) is not None:
                name = _name(raw[begin:end])
            else:
                yield begin, end, (*path, name) if is_object else path
                continue
        elif mark in b"{[":
            if len(around) >= _MOST_OPEN:
                return
            around.append((is_object, path))
            path = (*path[:3], name) if is_object else path
            is_object = mark == b"{"
        elif around:
            is_object, path = around.pop()
        yield -1, -1, ()


def _end_of_string(raw: bytes, position: int) -> int:
    """Return where the quote is that ends a string, or -1."""
    end = raw.find(b'"', position)
    while end > position and raw[end - 1] == 0x5C:
        first = end - 1
        while first > position and raw[first - 1] == 0x5C:
            first -= 1
        if (end - first) % 2 == 0:
            break
        end = raw.find(b'"', end + 1)
    return end


def _name(raw: bytes) -> str:
    if b"\\" not in raw:
        return raw.decode(errors="replace")
    try:
        found: str = json.loads(b'"%b"' % raw, strict=False)
    except ValueError:
        return ""
    return found


def _pieces(raw: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text: long ones are cut where nothing is removed that is in both."""
    position = begin + STEP_BYTES
    while end - begin > 2 * STEP_BYTES and position < end:
        place = _place_to_cut(raw, position, min(position + STEP_BYTES, end))
        if place is None:
            position += STEP_BYTES
            continue
        yield begin, place
        begin, position = place, place + STEP_BYTES
    yield begin, end


def _place_to_cut(raw: bytes, position: int, end: int) -> int | None:
    """Return where a text may be cut: at a space, else between two letters.

    Where 16 KiB have neither, as no text of people, it is cut between any two characters.
    """
    cut = position
    while (cut := raw.find(b" ", cut, end)) >= 0:
        if raw[cut - 1] in _ALNUM and b"\\" not in raw[cut - 6 : cut]:
            return cut
        cut += 1
    for cut in range(position, end):
        if raw[cut] in _ALNUM and raw[cut - 1] in _ALNUM and b"\\" not in raw[cut - 12 : cut]:
            return cut
    found = _LETTERS.search(raw, position, end) or _CHARACTERS.search(raw, position, end)
    return None if found is None else found.start()
