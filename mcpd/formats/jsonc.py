"""Parses JSON, also with comments and trailing commas, and records where every value stands."""

from __future__ import annotations

import json
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

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"([^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"\w+")
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse(text: str, *, comments: bool = True, trailing_commas: bool = True) -> Document:
    """Parse JSON with ``//`` and ``/* */`` comments and trailing commas, unless they are refused.

    Plain JSON gives the same result as ``json.loads``, except that ``NaN`` and ``Infinity`` are
    errors. Raises only ``ConfigError``, with ``line`` and ``column`` in its details.
    """
    return _Parser(text, comments, trailing_commas).parse()


class _Parser:
    def __init__(self, text: str, comments: bool, trailing_commas: bool) -> None:
        self._text = text
        self._blank = _BLANK if comments else _SPACE
        self._trailing_commas = trailing_commas
        self._at = 0
        self._document = Document(text)

    def parse(self) -> Document:
        if self._peek() == "":
            raise self._wrong('expected "{", and the file is empty')
        self._document.data = self._value(())
        if self._peek() != "":
            raise self._wrong("expected the end of the file after the outermost value")
        return self._document

    def _peek(self) -> str:
        """Skip blanks and comments and return the next character, ``""`` at the end."""
        blank = self._blank.match(self._text, self._at)
        assert blank is not None  # the pattern matches the empty string too
        self._at = blank.end()
        if self._blank is _SPACE and self._text.startswith(("//", "/*"), self._at):
            raise self._wrong("a comment, and comments are not allowed in this file")
        if self._text.startswith("/*", self._at):
            raise self._wrong('expected "*/": this comment is never closed')
        return self._text[self._at : self._at + 1]

    def _value(self, path: KeyPath) -> Any:
        char = self._peek()
        self._document.values[path] = self._at
        value = self._content(path, char)
        self._document.ends[path] = self._at
        return value

    def _content(self, path: KeyPath, char: str) -> Any:
        if char in ("{", "["):
            if len(path) >= DEPTH_LIMIT:
                raise self._wrong(f"nested more than {DEPTH_LIMIT} deep")
            return self._object(path) if char == "{" else self._array(path)
        if char == '"':
            return self._string()
        if (number := _NUMBER.match(self._text, self._at)) is not None:
            return self._number(number)
        return self._constant(char)

    def _object(self, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._at += 1
        while (char := self._peek()) != "}":
            start = self._at
            if char != '"':
                raise self._wrong('expected a name in double quotes, or "}"')
            name = self._string()
            inner = (*path, name)
            if name in found:
                if isinstance(found[name], (dict, list)):
                    self._forget(inner)
                self._document.repeated.append(inner)
            self._document.keys[inner] = start
            if self._peek() != ":":
                raise self._wrong('expected ":" after the name')
            self._at += 1
            found[name] = self._value(inner)
            self._comma_or("}")
        self._at += 1
        return found

    def _array(self, path: KeyPath) -> list[Any]:
        found: list[Any] = []
        self._at += 1
        while self._peek() != "]":
            found.append(self._value((*path, len(found))))
            self._comma_or("]")
        self._at += 1
        return found

    def _comma_or(self, closing: str) -> None:
        char = self._peek()
        if char == ",":
            comma = self._at
            self._at += 1
            if not self._trailing_commas and self._peek() == closing:
                self._at = comma
                raise self._wrong(f'a comma before "{closing}", which is not allowed in this file')
        elif char != closing:
            raise self._wrong(f'expected "," or "{closing}"')

    def _string(self) -> str:
        literal = _STRING.match(self._text, self._at)
        if literal is None:
            raise self._wrong("expected the string to end, with a double quote, on this line")
        start, self._at = self._at, literal.end()
        if "\\" not in literal[1]:
            return literal[1]
        try:
            decoded: str = json.loads(literal[0])
        except ValueError as error:
            self._at = start + getattr(error, "pos", 0)
            raise self._wrong("not an escape of JSON; a backslash is written \\\\") from None
        return decoded

    def _number(self, literal: re.Match[str]) -> int | float:
        try:
            value = float(literal[0]) if literal[1] or literal[2] else int(literal[0])
        except ValueError:  # Python reads integers of at most 4,300 digits
            raise self._wrong("this number has too many digits") from None
        self._at = literal.end()
        return value

    def _constant(self, char: str) -> bool | None:
        word = _WORD.match(self._text, self._at)
        if word is not None and word[0] in _CONSTANTS:
            self._at = word.end()
            return _CONSTANTS[word[0]]
        if word is not None and word[0].lower() in _CONSTANTS:
            raise self._wrong(f"expected {word[0].lower()}, in lower case")
        if char == "'":
            raise self._wrong("expected a value; strings stand in double quotes")
        raise self._wrong("expected a value: a string, a number, true, false, null, [ or {")

    def _forget(self, path: KeyPath) -> None:
        """Remove the positions inside an earlier value of the same name."""
        for places in (self._document.keys, self._document.values, self._document.ends):
            for known in [known for known in places if known[: len(path)] == path]:
                del places[known]

    def _wrong(self, message: str) -> ConfigError:
        if self._at >= len(self._text) and not message.endswith("empty"):
            message += ", and the file ends here"
        message = with_quotes_explained(message, self._text, self._at)
        return syntax_error(message, *self._document.place(min(self._at, len(self._text))))
