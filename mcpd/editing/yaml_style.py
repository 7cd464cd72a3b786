"""How new YAML is written: like what stands near it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from mcpd.editing.edits import get, has
from mcpd.editing.yaml_layout import Layout
from mcpd.errors import ConfigError
from mcpd.formats import yaml
from mcpd.formats.document import KeyPath

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@%+=-]*")

_NOT_TEXT = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf")
)
"""Words that some version of YAML takes for something else than a text, in any case."""


class Source:
    """The text of a value, which is written as it is where its indentation fits."""

    def __init__(self, text: str) -> None:
        parsed = yaml.parse(text, is_part=True)
        self.text = text
        self.data = parsed.data
        self.is_block = isinstance(parsed.data, (dict, list)) and () not in parsed.flow
        self.column = len(text) - len(text.lstrip(" "))
        self.has_aliases = bool(parsed.references)


class Style:
    """How new text is written: like what stands near it."""

    def __init__(self, layout: Layout, path: KeyPath) -> None:
        self._layout = layout
        document = layout.document
        near = [each for each in document.ends if each and each[: len(path)] == path]
        around = [
            each for each in document.ends if each and path and each[: len(path) - 1] == path[:-1]
        ]
        self._models = [*near, *around, *(each for each in document.ends if each)]
        self._newline = layout.newline
        self._quote = self._first(self._quotes(document.values, document.ends)) or ""
        self._key_quote = self._first(self._quotes(document.keys, document.values)) or ""
        self.unit = self._first(self._units(dict)) or 2
        lists = [each for each in self._models if isinstance(self._value(each), list)]
        self._has_flow_lists = bool(lists) and lists[0] in document.flow
        indent = self._first(self._units(list))
        self._list_indent = 2 if indent is None else indent
        tables = [each for each in near if isinstance(self._value(each), dict) and each != path]
        self._has_flow_tables = bool(tables) and tables[0] in document.flow

    def block(self, value: Any, column: int) -> str:
        """Return the lines of a table or list whose first one begins at a column."""
        line = self._newline + " " * column
        if isinstance(value, dict):
            return line.join(self.member(name, each, column) for name, each in value.items())
        return line.join(self.item(each, column) for each in value)

    def member(self, name: str | int, value: Any, column: int) -> str:
        """Return ``name: value``, in lines whose first one begins at a column."""
        key = f"{self.key(str(name))}:"
        if isinstance(value, Source) and value.is_block:
            if value.column > column:
                return f"{key}{self._newline}{value.text}"
            value = value.data
        if isinstance(value, dict) and value and not self._has_flow_tables:
            inner = column + self.unit
        elif isinstance(value, list) and value and not self._has_flow_lists:
            inner = column + self._list_indent
        else:
            return f"{key} {self.flow(value)}"
        return f"{key}{self._newline}{' ' * inner}{self.block(value, inner)}"

    def item(self, value: Any, column: int) -> str:
        """Return ``- value``, in lines whose first one begins at a column."""
        if isinstance(value, Source):
            if not value.is_block or value.column == column + 2:
                return f"- {value.text.lstrip(' ')}"
            value = value.data
        if isinstance(value, dict) and value and not self._has_flow_tables:
            return "- " + self.block(value, column + 2)
        return "- " + self.flow(value)

    def flow(self, value: Any) -> str:
        """Return the text of a value in one line."""
        if isinstance(value, Source):
            if not value.is_block:
                return value.text
            value = value.data
        if isinstance(value, dict):
            pairs = [f"{self.key(name)}: {self.flow(each)}" for name, each in value.items()]
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.flow, value))}]"
        return _text(value, self._quote)

    def key(self, name: str) -> str:
        """Return the text of a key."""
        return _text(name, self._key_quote)

    def _value(self, path: KeyPath) -> Any:
        return get(self._layout.data, path) if has(self._layout.data, path) else None

    def _first(self, found: Iterator[Any]) -> Any:
        return next(found, None)

    def _quotes(self, starts: dict[KeyPath, int], ends: dict[KeyPath, int]) -> Iterator[str]:
        """Yield how texts are quoted: ``""`` of those that are not."""
        for path in self._models:
            if path in starts and (starts is not ends) and isinstance(path[-1], str):
                text = self._layout.text[starts[path] : ends[path]]
                is_key = starts is self._layout.document.keys
                if is_key or isinstance(self._value(path), str):
                    yield text[0] if text[:1] in ("'", '"') else ""

    def _units(self, kind: type) -> Iterator[int]:
        """Yield by how much the members of tables, or lists, in tables are indented."""
        for path in self._models:
            is_member = path in self._layout.document.keys and isinstance(self._value(path), kind)
            if is_member and self._layout.is_block(path):
                outer = self._layout.column(self._layout.document.keys[path])
                yield self._layout.column(self._layout.items(path)[0][0]) - outer


def _text(value: Any, quote: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isnan(value):
            return ".nan"
        case float() if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        case float():
            return repr(value)
        case str() if not quote and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
            return value
        case str() if quote == "'" and value.isprintable() and value.isascii():
            return "'" + value.replace("'", "''") + "'"
        case str():
            return _double_quoted(value)
    raise ConfigError(f"YAML has no value for {json.dumps(value)}")


def _double_quoted(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
