"""A parsed configuration file that remembers where each of its values stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from mcpd.config.problems import KeyPath
from mcpd.errors import ConfigError

DEPTH_LIMIT = 100
"""Lists and tables within each other; the schema needs 5, and Python's stack bears about 300."""


class Document:
    """The data of one file, and the offset in its text of every key and value.

    ``keys`` and ``values`` map a key path to an offset; ``repeated`` lists the key paths that
    were written more than once in JSON, where the last one counts.
    """

    def __init__(self, text: str) -> None:
        self.data: Any = None
        self.keys: dict[KeyPath, int] = {}
        self.values: dict[KeyPath, int] = {}
        self.repeated: list[KeyPath] = []
        self._line_starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and the column, both from 1, of an offset in the text."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def place_of_value(self, path: KeyPath) -> tuple[int, int]:
        """Return where a value stands, or the innermost table that should have held it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.place(self.values.get(path, 0))

    def place_of_key(self, path: KeyPath) -> tuple[int, int]:
        """Return where a key is written; that of its value for an element of a list."""
        return self.place(self.keys[path]) if path in self.keys else self.place_of_value(path)


def syntax_error(message: str, line: int, column: int) -> ConfigError:
    """Return the error of a text that cannot be parsed; the details hold the place."""
    return ConfigError(message, line=line, column=column)


def decode(raw: bytes) -> str:
    """Return the text of a file, without a byte order mark.

    Raises ``ConfigError`` with the place of the first byte that is not UTF-8.
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
