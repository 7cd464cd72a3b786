"""Edits of JSON, strict or with comments and trailing commas."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from mcpd.editing.edits import Drop, Edit, Put, Splice, get, has, innermost
from mcpd.editing.group import SLASHES, Group, begins_line, indentation, newline
from mcpd.errors import ConfigError
from mcpd.formats import jsonc
from mcpd.formats.document import Document, KeyPath

MODELS: Final = 100
"""Values that are looked at, at most, to find how a file is laid out."""

_COLON = re.compile(r"[ \t]*:[ \t]*")
_NAME = re.compile(r'"(?:[^"\\]|\\.)*"')


class JsonSyntax:
    """JSON, in which comments or trailing commas may be refused."""

    def __init__(self, *, comments: bool, trailing_commas: bool) -> None:
        self._comments = comments
        self._trailing_commas = trailing_commas

    def read(self, text: str) -> tuple[Any, list[KeyPath]]:
        """Return the data, and the key paths that are written twice."""
        try:  # what most files are, at the speed of the C module
            return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse), []
        except (ValueError, RecursionError):
            document = self.parse(text)
            return document.data, document.repeated

    def parse(self, text: str) -> Document:
        """Return the data with the position of each value."""
        return jsonc.parse(text, comments=self._comments, trailing_commas=self._trailing_commas)

    def source(self, document: Document, text: str, path: KeyPath) -> str:
        """Return the text of the value at ``path``, which exists."""
        return text[document.values[path] : document.ends[path]]

    def touched(self, document: Document, edit: Edit) -> KeyPath:
        """Return the path of a value inside which the edit changes the text, and no other does."""
        return innermost(document.data, edit.path[:-1] if isinstance(edit, Drop) else edit.path)

    def splices(self, document: Document, text: str, edit: Edit) -> list[Splice]:
        """Return how the text changes."""
        path = edit.path
        if isinstance(edit, Drop):
            return _group(document, text, path[:-1]).dropped(_index(document, path))
        value = edit.value if isinstance(edit, Put) else _Source(edit.text)
        if path in document.ends:
            start, end = document.values[path], document.ends[path]
            layout = _Layout(document, text, path)
            return [Splice(start, end, layout.text_of(value, indentation(text, start)))]
        return _added(document, text, path, value)


class _Source(str):
    """The text of a value, which is written as it is."""

    __slots__ = ()


def _added(document: Document, text: str, path: KeyPath, value: Any) -> list[Splice]:
    container = _container(document, path)
    for part in reversed(path[len(container) + 1 :]):
        value = {part: value}
    layout = _Layout(document, text, container)
    group = _group(document, text, container)
    indent = layout.indent_of_members(container)
    is_spread = group.is_spread() if group.members else layout.is_spread(dict)
    member = layout.text_of(value, indent if is_spread else indentation(text, group.open))
    if isinstance(get(document.data, container), dict):
        member = layout.name(path[len(container)]) + member
    return group.added(
        member,
        line=layout.newline + indent,
        gap=layout.gap if group.members else "",
        closing=layout.newline + indentation(text, group.open) if is_spread else None,
    )


def _container(document: Document, path: KeyPath) -> KeyPath:
    """Return the path of the innermost table or list that an added value goes into."""
    inner = innermost(document.data, path[:-1])
    found, part = get(document.data, inner), path[len(inner)]
    if isinstance(part, int):
        is_right = isinstance(found, list) and part == len(found)
    else:
        is_right = isinstance(found, dict)
    if not is_right:
        name = ".".join(map(str, inner)) or "the file"
        line, column = document.place_of_value(inner)
        raise ConfigError(f"{name} cannot have a member {part}", line=line, column=column)
    return inner


def _members(document: Document, path: KeyPath) -> list[KeyPath]:
    """Return the paths of the members of a table or list, in the order of the text."""
    found = get(document.data, path)
    if isinstance(found, list):
        return [(*path, number) for number in range(len(found))]
    return sorted(((*path, name) for name in found), key=lambda inner: document.keys[inner])


def _group(document: Document, text: str, path: KeyPath) -> Group:
    members = [
        (document.keys.get(inner, document.values[inner]), document.ends[inner])
        for inner in _members(document, path)
    ]
    return Group(text, document.values[path], document.ends[path] - 1, members, SLASHES)


def _index(document: Document, path: KeyPath) -> int:
    return _members(document, path[:-1]).index(path)


class _Layout:
    """How a file is laid out near a value: what new text is made like.

    The model is the value itself, where it is replaced, then its siblings, the table that it is
    in, and anything else in the file.
    """

    def __init__(self, document: Document, text: str, path: KeyPath) -> None:
        self._document = document
        self._text = text
        self._models = list(islice(self._near(path), MODELS))
        self.newline = newline(text)
        self.unit = self._unit()
        self.colon = self._colon()
        self.gap, self._pad = self._spaces()

    def is_spread(self, kind: type) -> bool:
        """Return whether the members of a new table or list get lines of their own."""
        for model in self._models:
            if isinstance(get(self._document.data, model), kind) and self._first(model):
                return begins_line(self._text, self._first(model)[0])
        return kind is dict and not any(self._first(model) for model in self._models)

    def indent_of_members(self, path: KeyPath) -> str:
        """Return the indentation of the members of a table or list."""
        members = _group(self._document, self._text, path).members
        for start, _ in reversed(members):
            if begins_line(self._text, start):
                return indentation(self._text, start)
        return indentation(self._text, self._document.values[path]) + self.unit

    def name(self, name: str | int) -> str:
        """Return the text of a key with its colon."""
        return _text(name) + self.colon

    def text_of(self, value: Any, indent: str) -> str:
        """Return the text of a value that begins on a line with this indentation."""
        if isinstance(value, _Source):
            return str(value)
        if not isinstance(value, (dict, list)):
            return _text(value)
        is_table = isinstance(value, dict)
        left, right = "{}" if is_table else "[]"
        inner = indent + self.unit
        if isinstance(value, dict):
            members = [self.name(key) + self.text_of(each, inner) for key, each in value.items()]
        else:
            members = [self.text_of(each, inner) for each in value]
        if not members:
            return left + right
        if self.is_spread(dict if is_table else list):
            line = self.newline + inner
            return left + line + f",{line}".join(members) + self.newline + indent + right
        pad = self._pad if is_table else ""
        return left + pad + f",{self.gap}".join(members) + pad + right

    def _near(self, path: KeyPath) -> Iterator[KeyPath]:
        seen = set()
        for top in (path, path[:-1], ()):
            if has(self._document.data, top):
                for each in self._within(top):
                    if each not in seen:
                        seen.add(each)
                        yield each

    def _within(self, path: KeyPath) -> Iterator[KeyPath]:
        waiting = deque([path])
        while waiting:
            each = waiting.popleft()
            if isinstance(get(self._document.data, each), (dict, list)):
                yield each
                waiting += _members(self._document, each)

    def _first(self, path: KeyPath) -> tuple[int, ...]:
        """Return the offset of the first member, or nothing in an empty table or list."""
        members = _group(self._document, self._text, path).members
        return members[0][:1] if members else ()

    def _unit(self) -> str:
        for model in self._models:
            for start in self._first(model):
                inner = indentation(self._text, start)
                outer = indentation(self._text, self._document.values[model])
                if begins_line(self._text, start) and len(inner) > len(outer):
                    return inner.removeprefix(outer)
        return "  "

    def _colon(self) -> str:
        for model in self._models:
            for inner in _members(self._document, model):
                name = _NAME.match(self._text, self._document.keys.get(inner, len(self._text)))
                found = name and _COLON.fullmatch(
                    self._text, name.end(), self._document.values[inner]
                )
                if found:
                    return found[0]
        return ": "

    def _spaces(self) -> tuple[str, str]:
        """Return what stands behind a comma, and inside the braces, of what has one line."""
        gap = pad = None
        for model in self._models:
            group = _group(self._document, self._text, model)
            if not group.members or group.is_spread():
                continue
            before = self._text[group.open + 1 : group.members[0][0]]
            if pad is None and not before.strip(" ") and self._text[group.open] == "{":
                pad = before
            if gap is None and len(group.members) > 1:
                between = self._text[group.members[0][1] : group.members[1][0]]
                gap = between[1:] if re.fullmatch(", *", between) else None
        return gap if gap is not None else " " if self.colon != ":" else "", pad or ""


def _text(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 has no bytes for
        text = json.dumps(value)
    except ValueError:
        raise ConfigError("JSON has no infinite numbers, and none that is not a number") from None
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is written twice")
    return found


def _refuse(constant: str) -> float:
    raise ValueError(constant)
