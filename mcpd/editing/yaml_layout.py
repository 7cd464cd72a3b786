"""Where the values of a YAML document stand: in blocks with lines of their own, or in brackets."""

from __future__ import annotations

import re

from mcpd.editing.edits import get
from mcpd.editing.group import HASHES, Group, newline
from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath
from mcpd.formats.yaml import YamlDocument

_FIRST_DASH = re.compile(r"(?:[&!]\S*[ \t]*)*(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ ]*-")


class Layout:
    """A document and its text."""

    def __init__(self, document: YamlDocument, text: str) -> None:
        self.document = document
        self.data = document.data
        self.text = text
        self.newline = newline(text)

    def source(self, path: KeyPath) -> str:
        """Return the text of a value; that of a block has whole lines."""
        start, end = self.document.values[path], self.document.ends[path]
        if not path or not self.is_block(path):
            return self.text[start:end]
        indent = self.column(start) if start == self.items(path)[0][0] else 0
        return " " * indent + self.text[start : self.line_end(end)]

    def is_block(self, path: KeyPath) -> bool:
        """Return whether a value is a table or list that has lines of its own."""
        document = self.document
        is_own = path not in document.flow and path not in document.aliases
        return (
            is_own and isinstance(get(self.data, path), (dict, list)) and bool(self.members(path))
        )

    def is_in_flow(self, path: KeyPath) -> bool:
        """Return whether a value stands in brackets."""
        return any(path[:end] in self.document.flow for end in range(len(path)))

    def members(self, path: KeyPath) -> list[tuple[int, int]]:
        """Return the offsets of the members of a table or list: of its keys, or of its values."""
        document = self.document
        starts = document.keys if isinstance(get(self.data, path), dict) else document.values
        inner = [each for each in starts if len(each) == len(path) + 1 and each[:-1] == path]
        return sorted((starts[each], document.ends[each]) for each in inner)

    def items(self, path: KeyPath) -> list[tuple[int, int]]:
        """Return the members of a block, with the dashes of a list."""
        members = self.members(path)
        if isinstance(get(self.data, path), dict):
            return members
        sign = _FIRST_DASH.match(self.text, self.document.values[path])
        if sign is None:
            raise ConfigError(f"{path[-1]} is written in a way that is not edited")
        column = self.column(sign.end() - 1)
        dash = re.compile(rf"^[ ]{{{column}}}(-)(?=\s|$)", re.MULTILINE)
        items: list[tuple[int, int]] = []
        for start, end in members:
            after = items[-1][1] if items else self.text.rfind("\n", 0, start) + 1
            found = dash.search(self.text, after, max(start, after + column + 1))
            first = found.start(1) if found else sign.end() - 1
            items.append((first, end))
        return items

    def group(self, path: KeyPath) -> Group:
        """Return the members of a table or list in brackets."""
        start = self.document.values[path]
        bracket = "{" if isinstance(get(self.data, path), dict) else "["
        end = self.document.ends[path]
        start = self.text.find(bracket, start, end)  # behind an anchor
        if start < 0:  # `[a: 1]`, of which the table has no brackets
            raise ConfigError(f"{path[-1]} has no braces: edit the file yourself")
        return Group(self.text, start, end - 1, self.members(path), HASHES)

    def column(self, at: int) -> int:
        """Return in which column an offset is, from 0."""
        return at - self.text.rfind("\n", 0, at) - 1

    def line_end(self, at: int) -> int:
        """Return where the line of a value that ends at ``at`` ends, behind its comment."""
        tail = HASHES.tail.match(self.text, at)
        assert tail is not None  # the pattern matches the empty string too
        return tail.end()
