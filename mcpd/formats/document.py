"""A parsed configuration file with the position of each of its keys and values."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from mcpd.errors import ConfigError

KeyPath = tuple[str | int, ...]
"""The keys and list indexes that lead to a value in its file, outermost first."""

DEPTH_LIMIT = 100
"""Nested lists and tables at most; the schema needs 5, and Python's stack allows about 300."""


class Document:
    """The data of one file, and the offset in its text of every key and value.

    ``keys`` and ``values`` map a key path to an offset, and ``ends`` to the offset behind a value
    that stands in one piece, which a TOML table with a header does not. ``repeated`` lists the key
    paths that occur more than once in a table, where the last one counts.
    """

    def __init__(self, text: str) -> None:
        self.data: Any = None
        self.keys: dict[KeyPath, int] = {}
        self.values: dict[KeyPath, int] = {}
        self.ends: dict[KeyPath, int] = {}
        self.repeated: list[KeyPath] = []
        self._line_starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and the column, both from 1, of an offset in the text."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the offset in the text of a line and a column, both from 1."""
        return self._line_starts[line - 1] + column - 1

    def place_of_value(self, path: KeyPath) -> tuple[int, int]:
        """Return the position of a value, or of the innermost table that should contain it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.place(self.values.get(path, 0))

    def place_of_key(self, path: KeyPath) -> tuple[int, int]:
        """Return the position of a key; for an element of a list, that of its value."""
        return self.place(self.keys[path]) if path in self.keys else self.place_of_value(path)


QUOTES = frozenset("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b\u2039\u203a\uff02")
"""Typographic quotes, which word processors and web pages use instead of straight ones."""

APOSTROPHES = frozenset("\u2018\u2019\u201a\u201b\u2039\u203a")
"""Typographic quotes that occur in ordinary text too."""


def with_quotes_explained(message: str, text: str, offset: int) -> str:
    """Return ``message``, or a better one if a typographic quote is the likely cause."""
    at = text[offset : offset + 1]
    if at in QUOTES:
        return f'{at} is a typographic quote: strings stand in straight ones, "'
    end = text.find("\n", offset)
    line = text[text.rfind("\n", 0, offset) + 1 : None if end < 0 else end]
    found = next((char for char in line if char in QUOTES - APOSTROPHES), None)
    hint = f"; {found} on this line is a typographic quote, where no string begins or ends"
    return message if found is None else message + hint


def syntax_error(message: str, line: int, column: int) -> ConfigError:
    """Return the error of a text that cannot be parsed; the position is in its details."""
    return ConfigError(message, line=line, column=column)


def decode(raw: bytes) -> str:
    """Return the text of a file, without a byte order mark.

    Raises ``ConfigError`` with the position of the first byte that is not UTF-8.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise syntax_error("expected UTF-8, and this is UTF-16: save the file as UTF-8", 1, 1)
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8").removeprefix("\ufeff")
        column = len(before) - (before.rfind("\n") + 1) + 1
        raise syntax_error(
            "expected UTF-8, and this byte is not", before.count("\n") + 1, column
        ) from None
