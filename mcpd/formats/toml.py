"""Parses TOML with ``tomllib``, and scans the text for where every value stands."""

from __future__ import annotations

import re
from typing import Any

from mcpd.errors import ConfigError
from mcpd.formats.document import (
    DEPTH_LIMIT,
    Document,
    KeyPath,
    syntax_error,
    with_quotes_explained,
)

_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*[^,\]}#\s]")
_LONG_NUMBER = re.compile(r"[0-9_]{4300,}")
_TOO_LONG = "this number has too many digits"
_LONG_HEXADECIMAL = re.compile(r"0[xob][0-9A-Fa-f_]{1000,}")
"""A number that could not be printed: Python writes integers of at most 4,300 digits."""

_PART = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|#[^\n]*'
    rf"|(?P<key>(?:{_PART.pattern})(?:[ \t]*\.[ \t]*(?:{_PART.pattern}))*)|(?P<broken>[\"'])",
    re.DOTALL,
)
"""What a key may stand beside; ``broken`` is a string without its end."""


class TomlDocument(Document):
    """The data of a TOML file, and where its headers and pairs stand.

    ``headers`` are the key paths of ``[table]`` and ``[[table]]``, in the order of the text, each
    with the offsets of its brackets; a key path of the latter ends in an index. ``pairs`` maps the
    whole key path of each ``key = value``, also in inline tables, to the offset of its key.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.headers: list[tuple[KeyPath, int, int]] = []
        self.pairs: dict[KeyPath, int] = {}


def parse(text: str) -> TomlDocument:
    """Parse TOML 1.0.

    Raises only ``ConfigError``, with ``line`` and ``column`` in its details.
    """
    document = TomlDocument(text)
    document.data = loads(text)
    _Scanner(text, document).scan()  # refuses depth long before the stack would
    return document


def loads(text: str) -> dict[str, Any]:
    """Return the data alone; raise as ``parse`` does, except for its limit of depth.

    One key of many parts is refused: ``tomllib`` takes the square of their number for it.
    """
    import tomllib  # only a TOML file pays for it

    if text.count(".") >= DEPTH_LIMIT or _LONG_HEXADECIMAL.search(text):
        _check_keys(text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _too_deep((1, 1)) from None
    except ValueError as error:
        raise _located(str(error), text, Document(text)) from None


def _check_keys(text: str) -> None:
    for token in _TOKEN.finditer(text):
        if token["broken"] is not None:
            return  # tomllib says so
        key = token["key"] or ""
        if key.count(".") >= DEPTH_LIMIT and len(_PART.findall(key)) > DEPTH_LIMIT:
            raise _too_deep(Document(text).place(token.start()))
        if _LONG_HEXADECIMAL.match(key):
            raise syntax_error(_TOO_LONG, *Document(text).place(token.start()))


def _too_deep(place: tuple[int, int]) -> ConfigError:
    return syntax_error(f"nested more than {DEPTH_LIMIT} deep", *place)


def _located(message: str, text: str, document: Document) -> ConfigError:
    found = _PLACE.fullmatch(message)
    if found is None:  # Python reads integers of at most 4,300 digits; tomllib lets that through
        number = _LONG_NUMBER.search(text)
        place = document.place(number.start() if number else 0)
        return syntax_error(_TOO_LONG, *place)
    message = found[1][:1].lower() + found[1][1:]
    if found[2] is None:
        return syntax_error(f"{message}, and the file ends here", *document.place(len(text)))
    line, column = int(found[2]), int(found[3])
    message = with_quotes_explained(message, text, document.offset(line, column))
    return syntax_error(message, line, column)


class _Scanner:
    """Finds positions in a text that ``tomllib`` has accepted; it does not check the syntax."""

    def __init__(self, text: str, document: TomlDocument) -> None:
        # tomllib reads CR LF as one newline and refuses a CR alone, so offsets in the text match.
        self._text = text
        self._document = document
        self._document.values[()] = 0
        self._at = 0

    def scan(self) -> None:
        table: KeyPath = ()
        lengths: dict[KeyPath, int] = {}  # of the arrays of tables
        while True:
            self._skip(_BLANK)
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._header(lengths)
            else:
                self._pair(table)

    def _header(self, lengths: dict[KeyPath, int]) -> KeyPath:
        start = self._at
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        parts = self._key()
        self._at += 2 if many else 1
        path: KeyPath = ()
        if len(parts) > DEPTH_LIMIT:
            raise _too_deep(self._document.place(start))
        for number, (name, _) in enumerate(parts):
            path = (*path, name)
            self._document.keys.setdefault(path, start)
            self._document.values.setdefault(path, start)
            if many and number == len(parts) - 1:
                lengths[path] = lengths.get(path, 0) + 1
            if path in lengths:
                path = (*path, lengths[path] - 1)
                self._document.values.setdefault(path, start)
        if not many:  # `[a.b]` may come before `[a]`: its own header is the better place
            self._document.keys[path] = self._document.values[path] = start
        self._document.headers.append((path, start, self._at))
        return path

    def _pair(self, table: KeyPath) -> None:
        path, start = table, self._at
        for name, offset in self._key():
            path = (*path, name)
            self._document.keys.setdefault(path, offset)
            self._document.values.setdefault(path, offset)
        self._document.pairs[path] = start
        self._at += 1  # the equals sign, up to which the key has been read
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[tuple[str, int]]:
        """Read ``a."b c".d`` and stop at what ends it; return each part with its offset."""
        parts: list[tuple[str, int]] = []
        while True:
            self._skip(_SPACE)
            start = self._at
            if self._text[self._at] in "\"'":
                name = _unquoted(self._skip(_STRING))
            else:
                name = self._skip(_BARE)
            parts.append((name, start))
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        if len(path) > DEPTH_LIMIT:
            raise _too_deep(self._document.place(self._at))
        self._document.values[path] = self._at
        match self._text[self._at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._skip(_STRING)
            case _:
                self._skip(_SCALAR)
        self._document.ends[path] = self._at

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self._text[self._at] == "]":
                self._at += 1
                return
            self._value((*path, number))
            number += 1
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_SPACE)
        while self._text[self._at] != "}":
            self._pair(path)
            self._skip(_SPACE)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_SPACE)
        self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None  # tomllib has accepted the text
        self._at = found.end()
        return found[0]


def _unquoted(literal: str) -> str:
    if literal.startswith("'") or "\\" not in literal:
        return literal[1:-1]
    import tomllib

    value: Any = tomllib.loads(f"v = {literal}")["v"]
    return str(value)
