"""Text and JSON for a person who decides by them: nothing is invisible, nothing steers a terminal.

Standard library only: the daemon writes its questions with it, and ``mcpctl`` what it shows.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator
from typing import Any

FOLDED_FROM = 1000
"""Characters of a string from which it is shown folded: its beginning, its length and its hash."""

_BEGINNING = 200
_HASH_DIGITS = 12
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters of other categories that nobody sees."""


class Number(str):
    """A number of JSON as it was written."""

    __slots__ = ()


def text(value: str, most: int | None = None) -> str:
    """Return a text with each character that is not seen as ``⟨U+202E⟩``.

    What is longer than ``most`` characters is cut, with an ellipsis.
    """
    if most is not None and len(value) > most:
        value = f"{value[:most]}…"
    if value.isascii() and value.isprintable():
        return value
    return "".join(f"⟨U+{ord(char):04X}⟩" if _is_hidden(char) else char for char in value)


def _is_hidden(char: str) -> bool:
    if char in _BLANK or 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF:
        return True
    category = unicodedata.category(char)
    return category in _HIDDEN or (category == "Zs" and char != " ")


def encodable(value: object) -> object:
    """Return JSON data without lone surrogates, which UTF-8 has no bytes for."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {encodable(name): encodable(each) for name, each in value.items()}
        case list() | tuple():
            return [encodable(each) for each in value]
    return value


def tool(server: str, name: str, most: int | None = None) -> str:
    """Return what people call a tool of a server."""
    return f"{text(server, most)} \u203a {text(name, most)}"


def load(raw: bytes | str) -> Any:
    """Read JSON with its numbers as they were written; raise ``ValueError`` as ``json`` does."""
    return json.loads(raw, parse_int=Number, parse_float=Number, parse_constant=Number)


def is_folded(value: str) -> bool:
    """Return whether a string is not shown whole."""
    return len(value) > FOLDED_FROM


def has_folded(value: Any) -> bool:
    """Return whether a string of JSON that ``load`` has read, or a name in it, is folded."""
    if isinstance(value, dict):
        return any(is_folded(name) or has_folded(member) for name, member in value.items())
    if isinstance(value, list):
        return any(map(has_folded, value))
    return isinstance(value, str) and is_folded(value)


def string(value: str) -> str:
    """Return a string as JSON writes it, but visible; a long one is folded."""
    shown = value[:_BEGINNING] if is_folded(value) else value
    quoted = text(shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
    if not is_folded(value):
        return f'"{quoted}"'
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f'"{quoted}…" ⟨{len(value)} characters, sha256 {digest}⟩'


def lines(value: Any, indent: int = 0, head: str = "", tail: str = "") -> Iterator[str]:
    """Yield JSON that ``load`` has read, a member a line, with sorted names."""
    margin = "  " * indent
    if isinstance(value, dict | list) and value:
        is_object = isinstance(value, dict)
        yield f"{margin}{head}{'{' if is_object else '['}"
        members = (
            [(f"{string(name)}: ", value[name]) for name in sorted(value)]
            if isinstance(value, dict)
            else [("", each) for each in value]
        )
        for number, (name, member) in enumerate(members, 1):
            yield from lines(member, indent + 1, name, "," if number < len(members) else "")
        yield f"{margin}{'}' if is_object else ']'}{tail}"
        return
    yield f"{margin}{head}{_scalar(value)}{tail}"


def _scalar(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return string(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    return json.dumps(value)
