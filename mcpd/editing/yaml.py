"""Edits of YAML: of values, of lines of block style, and of what stands in brackets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from mcpd.editing.edits import Drop, Edit, Put, Splice, Steps, get, has
from mcpd.editing.group import (
    HASHES,
    Group,
    begins_line,
    indentation,
    line_after,
    line_before,
    lines_before,
    newline,
)
from mcpd.editing.leftovers import grown
from mcpd.errors import ConfigError
from mcpd.formats import yaml
from mcpd.formats.document import Document, KeyPath
from mcpd.formats.yaml import YamlDocument

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@%+=-]*")
_FIRST_DASH = re.compile(r"(?:[&!]\S*[ \t]*)*(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ ]*-")

_NOT_TEXT = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf")
)
"""Words that some version of YAML takes for something else than a text, in any case."""


class YamlSyntax:
    """YAML 1.2, one document."""

    def __init__(self) -> None:
        self._parsed: tuple[str, YamlDocument] | None = None

    def read(self, text: str) -> tuple[Any, list[KeyPath]]:
        """Return the data, and the key paths that are written twice."""
        document = self.parse(text)
        return document.data, document.repeated

    def parse(self, text: str) -> YamlDocument:
        """Return the data with the position of each value."""
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = text, yaml.parse(text)
        return self._parsed[1]

    def source(self, document: Document, text: str, path: KeyPath) -> str:
        """Return the text of the value at ``path``, which exists.

        Before that of a block stand as many spaces as its lines are indented by, and behind it the
        comment of its last line.
        """
        _check_place(document, path)
        assert isinstance(document, YamlDocument)
        return _Editor(document, text).source(path)

    def touched(self, document: Document, edit: Edit) -> KeyPath:
        """Return the path of a value inside which the edit changes the text, and no other does."""
        path = edit.path[:-1] if isinstance(edit, Drop) else edit.path
        while path not in document.values:
            path = path[:-1]
        return path

    def splices(self, document: Document, text: str, edit: Edit) -> Steps:
        """Return how the text changes, or simpler edits that do the same."""
        assert isinstance(document, YamlDocument)
        editor = _Editor(document, text)
        match edit:
            case Put():
                return editor.put(edit.path, edit.value)
            case Drop():
                return editor.drop(edit.path)
        return editor.put_source(edit.path, edit.text)


class _Editor:
    """A document and its text, while one edit is made of them."""

    def __init__(self, document: YamlDocument, text: str) -> None:
        self._document = document
        self._data = document.data
        self._text = text
        self._newline = newline(text)

    # -- reading -------------------------------------------------------------------------------

    def source(self, path: KeyPath) -> str:
        start, end = self._document.values[path], self._document.ends[path]
        if not path or not self._is_block(path):
            return self._text[start:end]
        indent = self._column(start) if start == self._items(path)[0][0] else 0
        return " " * indent + self._text[start : self._line_end(end)]

    def _is_block(self, path: KeyPath) -> bool:
        """Return whether a value is a table or list that has lines of its own."""
        document = self._document
        is_own = path not in document.flow and path not in document.aliases
        return (
            is_own and isinstance(get(self._data, path), (dict, list)) and bool(self._members(path))
        )

    def _is_in_flow(self, path: KeyPath) -> bool:
        return any(path[:end] in self._document.flow for end in range(len(path)))

    def _members(self, path: KeyPath) -> list[tuple[int, int]]:
        """Return the offsets of the members of a table or list: of its keys, or of its values."""
        document = self._document
        starts = document.keys if isinstance(get(self._data, path), dict) else document.values
        inner = [each for each in starts if len(each) == len(path) + 1 and each[:-1] == path]
        return sorted((starts[each], document.ends[each]) for each in inner)

    def _items(self, path: KeyPath) -> list[tuple[int, int]]:
        """Return the members of a block, with the dashes of a list."""
        members = self._members(path)
        if isinstance(get(self._data, path), dict):
            return members
        sign = _FIRST_DASH.match(self._text, self._document.values[path])
        if sign is None:
            raise ConfigError(f"{path[-1]} is written in a way that is not edited")
        column = self._column(sign.end() - 1)
        dash = re.compile(rf"^[ ]{{{column}}}(-)(?=\s|$)", re.MULTILINE)
        items: list[tuple[int, int]] = []
        for start, end in members:
            after = items[-1][1] if items else self._text.rfind("\n", 0, start) + 1
            found = dash.search(self._text, after, max(start, after + column + 1))
            first = found.start(1) if found else sign.end() - 1
            items.append((first, end))
        return items

    def _group(self, path: KeyPath) -> Group:
        start = self._document.values[path]
        bracket = "{" if isinstance(get(self._data, path), dict) else "["
        end = self._document.ends[path]
        start = self._text.find(bracket, start, end)  # behind an anchor
        if start < 0:  # `[a: 1]`, of which the table has no brackets
            raise ConfigError(f"{path[-1]} has no braces: edit the file yourself")
        return Group(self._text, start, end - 1, self._members(path), HASHES)

    def _column(self, at: int) -> int:
        return at - self._text.rfind("\n", 0, at) - 1

    def _line_end(self, at: int) -> int:
        """Return where the line of a value that ends at ``at`` ends, behind its comment."""
        tail = HASHES.tail.match(self._text, at)
        assert tail is not None  # the pattern matches the empty string too
        return tail.end()

    def _guard(self, changed: KeyPath, removed: tuple[int, int]) -> None:
        """Refuse a change of what an alias elsewhere refers to."""
        document = self._document
        start, end = document.values[changed], document.ends[changed]
        for name, first, last in document.anchors:
            covers = first <= start and end <= last
            goes = removed[0] <= first and last <= removed[1]
            is_used = any(
                other == name and not removed[0] <= at < removed[1]
                for other, at in document.references
            )
            if (covers or goes) and is_used:
                line, column = document.place(first)
                message = (
                    f"&{name} is used elsewhere, which would change, too: edit the file yourself"
                )
                raise ConfigError(message, line=line, column=column)

    # -- putting values ------------------------------------------------------------------------

    def put(self, path: KeyPath, value: Any) -> Steps:
        if path not in self._document.values:
            return self._added(path, value)
        start, end = self._document.values[path], self._document.ends[path]
        self._guard(path, (start, end))
        if not path and self._data is None:
            return self._added((), value)
        if start == end:
            return [self._filled(path, value)]
        style = _Style(self, path)
        if self._is_block(path) and value and isinstance(value, (dict, list)):
            first = self._items(path)[0][0]  # behind an anchor
            return [Splice(first, end, style.block(value, self._column(first)))]
        # the items of a list may stand in the column of its key, and nothing else
        is_beside = begins_line(self._text, start) and self._is_beside(path, self._column(start))
        return [Splice(start, end, (" " * style.unit if is_beside else "") + style.flow(value))]

    def _is_beside(self, path: KeyPath, column: int) -> bool:
        """Tell whether a column is that of the value's key."""
        at = self._document.keys.get(path)
        return at is not None and self._column(at) == column

    def _filled(self, path: KeyPath, value: Any) -> Splice:
        """Put a value where there is nothing behind a colon or a dash."""
        at = self._document.values[path]
        style = _Style(self, path[:-1])
        if value and isinstance(value, (dict, list)) and not self._is_in_flow(path):
            if not isinstance(path[-1], int):
                column = self._column(self._document.keys[path]) + style.unit
                end = self._line_end(at)
                return Splice(end, end, self._newline + " " * column + style.block(value, column))
            return Splice(at, at, " " + style.block(value, self._column(at) + 1))
        return Splice(at, at, " " + style.flow(value))

    def _added(self, path: KeyPath, value: Any) -> Steps:
        holder = path[:-1]
        while holder and holder not in self._document.values:
            _check_place(self._document, holder)
            holder = holder[:-1]
        if holder in self._document.aliases:
            line, column = self._document.place_of_value(holder)
            message = f"{holder[-1]} is an alias of another value: edit the file yourself"
            raise ConfigError(message, line=line, column=column)
        if path:
            for part in reversed(path[len(holder) + 1 :]):
                value = {part: value}
            found, part = get(self._data, holder), path[len(holder)]
            if found is None and isinstance(part, str) and holder:
                return [Put(holder, {part: value})]
            if isinstance(part, int):
                is_right = isinstance(found, list) and part == len(found)
            else:
                is_right = isinstance(found, dict) or found is None
        else:
            found, part, is_right = None, "", not path
        if not is_right:
            name = ".".join(map(str, holder)) or "the file"
            line, column = self._document.place_of_value(holder)
            raise ConfigError(f"{name} cannot have a member {part}", line=line, column=column)
        if found is None:
            return [self._begun({part: value} if path else value)]
        end = self._document.ends[holder]
        self._guard(holder, (end, end))
        style = _Style(self, holder)
        start = self._document.values[holder]
        if not found and begins_line(self._text, start):  # what was left when a last member went
            value = {part: value} if isinstance(found, dict) else [value]
            return [Splice(start, end, style.block(value, self._column(start)))]
        if not self._is_block(holder):
            member = style.flow(value)
            if isinstance(found, dict):
                member = f"{style.key(str(part))}: {member}"
            return self._added_in_brackets(holder, member)
        first = self._items(holder)[0][0]
        column = self._column(first)
        text = (
            style.member(part, value, column)
            if isinstance(found, dict)
            else style.item(value, column)
        )
        at = self._line_end(end)
        return [Splice(at, at, self._newline + " " * column + text)]

    def _added_in_brackets(self, holder: KeyPath, member: str) -> list[Splice]:
        group = self._group(holder)
        indent = indentation(self._text, group.members[-1][0] if group.members else group.open)
        return group.added(
            member, line=self._newline + indent, gap=" " if group.members else "", closing=None
        )

    def _begun(self, value: Any) -> Splice:
        """Add the first value to a file that has none."""
        at = len(self._text)
        before = "" if not self._text or self._text.endswith("\n") else self._newline
        style = _Style(self, ())
        return Splice(at, at, before + style.block(value, 0) + self._newline)

    # -- removing ------------------------------------------------------------------------------

    def drop(self, path: KeyPath) -> Steps:
        _check_place(self._document, path)
        holder = path[:-1]
        starts = self._document.keys if isinstance(path[-1], str) else self._document.values
        own = starts[path], self._document.ends[path]
        self._guard(holder, own)
        members = self._members(holder)
        index = members.index(own)
        if holder in self._document.flow:
            return self._group(holder).dropped(index)
        if len(members) == 1:
            return [Put(holder, {} if isinstance(get(self._data, holder), dict) else [])]
        items = self._items(holder)
        start, end = items[index]
        end = self._line_end(end)
        if index > 0:
            return [Splice(lines_before(self._text, start), end, "")]
        if begins_line(self._text, start):
            return [Splice(start - self._column(start), line_after(self._text, end), "")]
        follower = items[index + 1][0]
        if self._text[end:follower].strip():
            raise ConfigError(f"a comment stands behind {path[-1]}: edit the file yourself")
        return [Splice(start, follower, "")]

    # -- putting texts -------------------------------------------------------------------------

    def put_source(self, path: KeyPath, text: str) -> Steps:
        document = self._document
        source = _Source(text)
        if path not in document.values:
            return self._added(path, source)
        start, end = document.values[path], document.ends[path]
        self._guard(path, (start, end))
        if not text:  # as before something was put behind the colon, or below it
            is_below = begins_line(self._text, start)
            return [Splice(line_before(self._text, start) if is_below else start - 1, end, "")]
        if not source.is_block:
            return [Splice(start, end, text)]
        column, is_line = self._column(start), begins_line(self._text, start)
        is_item = path != () and isinstance(path[-1], int) and not self._is_in_flow(path)
        is_list = isinstance(source.data, list)
        is_beside = is_line and is_list and self._is_beside(path, source.column)
        if (source.column == column or is_beside) and (is_line or is_item):
            first, end = start - column, self._line_end(end)
            grown_from, end = grown(self._text, first, end, text) if is_line else (first, end)
            if grown_from < first:
                return [Splice(grown_from, end, text)]
            return [Splice(first, end, text) if is_line else Splice(start, end, text[column:])]
        if text[0] in "&!" and not is_line:
            return [Splice(start, self._line_end(end), text)]
        if source.has_aliases:
            message = f"{path[-1]} has another layout now, and aliases: edit the file yourself"
            raise ConfigError(message, line=document.place(start)[0])
        return [Put(path, source.data)]


class _Source:
    """The text of a value, which is written as it is where its indentation fits."""

    def __init__(self, text: str) -> None:
        parsed = yaml.parse(text, is_part=True)
        self.text = text
        self.data = parsed.data
        self.is_block = isinstance(parsed.data, (dict, list)) and () not in parsed.flow
        self.column = len(text) - len(text.lstrip(" "))
        self.has_aliases = bool(parsed.references)


class _Style:
    """How new text is written: like what stands near it."""

    def __init__(self, editor: _Editor, path: KeyPath) -> None:
        self._editor = editor
        document = editor._document
        near = [each for each in document.ends if each and each[: len(path)] == path]
        around = [
            each for each in document.ends if each and path and each[: len(path) - 1] == path[:-1]
        ]
        self._models = [*near, *around, *(each for each in document.ends if each)]
        self._newline = editor._newline
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
        if isinstance(value, _Source) and value.is_block:
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
        if isinstance(value, _Source):
            if not value.is_block or value.column == column + 2:
                return f"- {value.text.lstrip(' ')}"
            value = value.data
        if isinstance(value, dict) and value and not self._has_flow_tables:
            return "- " + self.block(value, column + 2)
        return "- " + self.flow(value)

    def flow(self, value: Any) -> str:
        """Return the text of a value in one line."""
        if isinstance(value, _Source):
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
        return get(self._editor._data, path) if has(self._editor._data, path) else None

    def _first(self, found: Iterator[Any]) -> Any:
        return next(found, None)

    def _quotes(self, starts: dict[KeyPath, int], ends: dict[KeyPath, int]) -> Iterator[str]:
        """Yield how texts are quoted: ``""`` of those that are not."""
        for path in self._models:
            if path in starts and (starts is not ends) and isinstance(path[-1], str):
                text = self._editor._text[starts[path] : ends[path]]
                is_key = starts is self._editor._document.keys
                if is_key or isinstance(self._value(path), str):
                    yield text[0] if text[:1] in ("'", '"') else ""

    def _units(self, kind: type) -> Iterator[int]:
        """Yield by how much the members of tables, or lists, in tables are indented."""
        for path in self._models:
            is_member = path in self._editor._document.keys and isinstance(self._value(path), kind)
            if is_member and self._editor._is_block(path):
                outer = self._editor._column(self._editor._document.keys[path])
                yield self._editor._column(self._editor._items(path)[0][0]) - outer


def _check_place(document: Document, path: KeyPath) -> None:
    """Refuse to edit what a merge key or an alias brings from elsewhere."""
    assert isinstance(document, YamlDocument)
    if path not in document.values and has(document.data, path):
        line, column = document.place_of_key(path)
        name = ".".join(map(str, path))
        message = f"{name} comes from another place by an alias: edit the file yourself"
        raise ConfigError(message, line=line, column=column)


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
