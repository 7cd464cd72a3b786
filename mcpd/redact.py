"""Masks known secrets in text, in every form in which programs write them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import ClassVar, Final

from msgspec import Raw

MASK: Final = "***"
"""The text that replaces a secret."""

MIN_SECRET: Final = 8
"""Characters; shorter values are not masked, because they would occur in ordinary text."""

_WINDOW: Final = 1024 * 1024
"""Characters searched in one call, which no other thread interrupts."""

_LEVELS: Final = 2**5
"""Backslashes that one can become: JSON within a string of JSON, nested five times at most. A
catalog on disk has two of these levels."""

_ESCAPED: Final = _LEVELS + 8
"""An upper bound of the characters that one escaped character takes."""

_BACKSLASH: Final = rf"(?:\\{{1,{_LEVELS}}}+u005[cC]|\\|%(?:25){{0,2}}5[cC])"
_SHORT: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a"}
_HTML: Final = {
    '"': "&quot;|&#34;",
    "'": "&#39;|&#x27;|&apos;",
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
_SHELL: Final = {"'": r"'(?:\\{1,4}+'|\"'\")'"}

_ANCHOR_MOST: Final = 8
_ANCHOR_LEAST: Final = 3
_RARE_FIRST: Final = "QXZJKYVWqzxjkGUHBFPyvwMLONDRSCTIEAbgfpmhu9876543dlcnrsoitae210"
"""Letters and digits, those that are rare in logs first."""


class Redactor:
    """Replaces every occurrence of known secrets by ``***``.

    A secret is found as it is, line by line, and escaped as in JSON (also within a string of JSON),
    in URLs, in HTML, by ``repr``, by a shell and in base64, also as a part of longer encoded data.
    Overlapping occurrences are replaced together.

    Invariant: text without any part of a secret is read once, regardless of the number of secrets.
    """

    NONE: ClassVar[Redactor]
    """A redactor without secrets."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Create a redactor of these values; those shorter than ``MIN_SECRET`` are ignored."""
        parts = {part for secret in secrets for part in _parts(secret)}
        self.secrets: Final = frozenset(part for part in parts if len(part) >= MIN_SECRET)

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def __or__(self, other: Redactor) -> Redactor:
        return Redactor(self.secrets | other.secrets)

    @cached_property
    def reach(self) -> int:
        """The length of the longest form of a secret in characters or bytes; 0 without secrets."""
        return max((_longest_form(secret) for secret in self.secrets), default=0)

    def mask(self, text: str) -> str:
        """Return ``text`` with the secrets masked. Cut a text only after masking it."""
        if not self.secrets or not self._may_hold_one(text):
            return text
        spans = sorted(
            span
            for needle in self._needles
            if needle.anchor in text
            for span in needle.occurrences(text)
        )
        parts: list[str] = []
        at = 0
        for start, end in spans:
            if start > at or not parts:
                parts += (text[at:start], MASK)
            at = max(at, end)
        parts.append(text[at:])
        return "".join(parts)

    def mask_bytes(self, data: bytes) -> bytes:
        """Return UTF-8 with the secrets masked; invalid bytes stay as they are."""
        if not self.secrets:
            return data
        text = data.decode("utf-8", "surrogateescape")
        masked = self.mask(text)
        return data if masked is text else masked.encode("utf-8", "surrogateescape")

    def mask_cut(self, text: str) -> str:
        """Return the beginning of a longer text with the secrets masked.

        The last ``reach`` characters are dropped: they could be the beginning of a secret whose end
        was cut off.
        """
        masked = self.mask(text)
        return masked[: max(0, len(masked) - self.reach)]

    def excerpt(self, data: Raw | bytes | bytearray, limit: int) -> str:
        """Return the first ``limit`` characters of UTF-8 with the secrets masked.

        Only the part of ``data`` that is needed for that is read.
        """
        room = limit + 2 * self.reach
        view = memoryview(data)
        text = str(view[:room], "utf-8", "replace")
        return (self.mask(text) if len(view) <= room else self.mask_cut(text))[:limit]

    def _may_hold_one(self, text: str) -> bool:
        search, overlap = self._anchors.search, _ANCHOR_MOST - 1
        return any(
            search(text, start, start + _WINDOW + overlap)
            for start in range(0, len(text) or 1, _WINDOW)
        )

    @cached_property
    def _needles(self) -> list[_Needle]:
        return [needle for secret in sorted(self.secrets) for needle in _needles(secret)]

    @cached_property
    def _anchors(self) -> re.Pattern[str]:
        return re.compile(_any_of(sorted({needle.anchor for needle in self._needles})))


Redactor.NONE = Redactor()


class _Needle:
    """A pattern for some of the forms of one secret.

    ``anchor`` is a text that all of them contain, empty if there is none.
    """

    def __init__(self, plain: str, reach: int, source: Callable[[], str]) -> None:
        """Create a needle; ``reach`` is the length of its longest form."""
        self.anchor = _anchor(plain)
        self._reach = reach
        self._source = source

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._source())

    def occurrences(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each occurrence in ``text``; occurrences may overlap."""
        search = self._pattern.search
        for start, end in self._regions(text):
            found = search(text, start, end)
            while found is not None:
                yield found.span()
                found = search(text, found.start() + 1, end)

    def _regions(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the surroundings of each anchor, outside of which no occurrence can be."""
        if not self.anchor:
            yield 0, len(text)
            return
        at = text.find(self.anchor)
        while at >= 0:
            start, end = max(0, at - self._reach), at
            while 0 <= at <= end + 2 * self._reach:
                end = at
                at = text.find(self.anchor, at + 1)
            yield start, end + self._reach


def _parts(secret: str) -> Iterator[str]:
    """Yield the parts of a secret that can occur alone, such as its lines."""
    yield secret
    yield secret.strip()
    yield from (line.strip() for line in secret.splitlines())


def _needles(secret: str) -> Iterator[_Needle]:
    reach = _longest_form(secret)
    yield _Needle(secret, reach, lambda: _escaped(secret))
    in_json = (json.dumps(secret, ensure_ascii=flag)[1:-1] for flag in (True, False))
    for form in dict.fromkeys((secret, *in_json)):
        data = _utf8(form)
        for offset in range(3):
            yield _encoded(data, offset, reach)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # as the environment has it
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _longest_form(secret: str) -> int:
    odd = sum(1 + (char > "\uffff") for char in secret if not _is_plain(char))
    in_text = len(secret) + _ESCAPED * odd
    return in_text * 4 // 3 + 4


def _encoded(data: bytes, offset: int, reach: int) -> _Needle:
    """Return the needle for the base64 of a longer text in which ``data`` has this offset.

    The first and the last digit may contain bits of the surrounding data.
    """
    digits = base64.b64encode(bytes(offset) + data).decode().rstrip("=")
    core = digits[-(-8 * offset // 6) : 8 * (offset + len(data)) // 6]
    before = _ANY_DIGIT if offset else ""
    after = f"{_ANY_DIGIT}?(?:=|%3[dD]){{0,2}}" if (offset + len(data)) % 3 else ""
    return _Needle(
        core, reach, lambda: before + "".join(_DIGIT.get(digit, digit) for digit in core) + after
    )


def _escaped(secret: str) -> str:
    """Return a pattern for a secret whose characters may each be escaped.

    Every repetition is bounded or possessive, so a search takes linear time.
    """
    parts = [r"(?<!\\)"] if secret.startswith("\\") else []  # in a long row of them, look once
    backslashes = 0
    before = ""
    for char in secret:
        if char == "\\":
            backslashes += 1
        else:
            is_next = _is_surrogate(before) and _is_surrogate(char)  # one mark may stand for both
            parts.append(_character(char, backslashes) + "?+" * is_next)
            backslashes = 0
        before = char
    if backslashes:
        parts.append(f"{_BACKSLASH}{{{backslashes},{_LEVELS * backslashes}}}+")
    return "".join(parts)


def _character(char: str, backslashes: int = 0) -> str:
    """Return a pattern for a character after a number of backslashes."""
    if _is_plain(char):
        return f"{_backslashes(backslashes)}{char}" if backslashes else char
    forms = "|".join(_forms(char))
    letters = "|".join(_letters(char))
    return (
        f"(?:{_backslashes(backslashes)}(?:{forms})|{_backslashes(backslashes + 1)}(?:{letters}))"
    )


def _backslashes(least: int) -> str:
    """Return a pattern for backslashes, each of which may be escaped."""
    return f"{_BACKSLASH}{{{least},{_LEVELS * (least + 1) - 1}}}+"


def _forms(char: str) -> Iterator[str]:
    """Yield patterns for the forms of a special character that have no backslash."""
    data = _utf8(char)
    percent = "".join(f"%(?:25){{0,2}}{_hex(f'{byte:02x}')}" for byte in data)
    if char == "\n":
        yield rf"\r?\n|(?:%(?:25){{0,2}}0[dD])?{percent}"
        return
    if char == "'":
        yield _SHELL[char]
    yield re.escape(char)
    yield percent
    if char == " ":
        yield r"\+|%(?:25)?2[bB]"
    if char in _HTML:
        yield _HTML[char]
    if _is_surrogate(char):  # the replacements for bytes that are not UTF-8
        yield r"\ufffd{1,3}+|\?|%EF%BF%BD"


def _letters(char: str) -> Iterator[str]:
    """Yield patterns for what follows the backslash of an escaped character."""
    again = f"{_BACKSLASH}{{1,{_LEVELS}}}+"
    if char in _SHORT:
        yield f"(?:r{again})?n" if char == "\n" else _SHORT[char]
    units = char.encode("utf-16-be", "surrogatepass").hex()
    yield again.join(f"u{_hex(units[at : at + 4])}" for at in range(0, len(units), 4))
    yield f"U{_hex(f'{ord(char):08x}')}"
    yield again.join(f"x{_hex(f'{byte:02x}')}" for byte in _utf8(char))
    if ord(char) < 256:
        yield f"x{_hex(f'{ord(char):02x}')}"
    if _is_surrogate(char):
        yield "u[fF]{3}[dD]"


def _hex(digits: str) -> str:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits)


def _is_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff"


def _is_plain(char: str) -> bool:
    """Return whether a character is never escaped: an ASCII letter or digit."""
    return char.isascii() and char.isalnum()


_DIGIT: Final = {"+": f"(?:{_character('+')}|-)", "/": f"(?:{_character('/')}|_)"}
_ANY_DIGIT: Final = "[A-Za-z0-9+/_-]"


def _anchor(plain: str) -> str:
    """Return a run of letters and digits of the secret that is rare in other text."""
    best, best_rank = "", (0, 0)
    for run in re.finditer(r"[A-Za-z0-9]+", plain):
        size = min(len(run[0]), _ANCHOR_MOST)
        for at in range(len(run[0]) - size + 1):
            rank = (size, -_RARE_FIRST.index(run[0][at]))
            if size >= _ANCHOR_LEAST and rank > best_rank:
                best, best_rank = run[0][at : at + size], rank
    return best


def _any_of(words: list[str]) -> str:
    """Return a pattern for any of these sorted plain words, with common prefixes merged."""
    if not words[0]:
        return ""
    parts = []
    start = 0
    while start < len(words):
        first = words[start][0]
        end = start
        while end < len(words) and words[end][0] == first:
            end += 1
        rest = [word[1:] for word in words[start:end]]
        parts.append(first + (rest[0] if len(rest) == 1 else _any_of(rest)))
        start = end
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
