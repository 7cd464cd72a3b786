"""Edits of YAML: of values, of lines of block style, and of what stands in brackets."""

from __future__ import annotations

from typing import Any

from mcpd.editing.edits import Drop, Edit, Put, Splice, Steps, get, has
from mcpd.editing.group import (
    begins_line,
    indentation,
    line_after,
    line_before,
    lines_before,
)
from mcpd.editing.leftovers import grown
from mcpd.editing.yaml_layout import Layout
from mcpd.editing.yaml_style import Source, Style
from mcpd.errors import ConfigError
from mcpd.formats import yaml
from mcpd.formats.document import Document, KeyPath
from mcpd.formats.yaml import YamlDocument


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


class _Editor(Layout):
    """A document and its text, while one edit is made of them."""

    def _guard(self, changed: KeyPath, removed: tuple[int, int]) -> None:
        """Refuse a change of what an alias elsewhere refers to."""
        document = self.document
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
        if path not in self.document.values:
            return self._added(path, value)
        start, end = self.document.values[path], self.document.ends[path]
        self._guard(path, (start, end))
        if not path and self.data is None:
            return self._added((), value)
        if start == end:
            return [self._filled(path, value)]
        style = Style(self, path)
        if self.is_block(path) and value and isinstance(value, (dict, list)):
            first = self.items(path)[0][0]  # behind an anchor
            return [Splice(first, end, style.block(value, self.column(first)))]
        # the items of a list may stand in the column of its key, and nothing else
        is_beside = begins_line(self.text, start) and self._is_beside(path, self.column(start))
        return [Splice(start, end, (" " * style.unit if is_beside else "") + style.flow(value))]

    def _is_beside(self, path: KeyPath, column: int) -> bool:
        """Tell whether a column is that of the value's key."""
        at = self.document.keys.get(path)
        return at is not None and self.column(at) == column

    def _filled(self, path: KeyPath, value: Any) -> Splice:
        """Put a value where there is nothing behind a colon or a dash."""
        at = self.document.values[path]
        style = Style(self, path[:-1])
        if value and isinstance(value, (dict, list)) and not self.is_in_flow(path):
            if not isinstance(path[-1], int):
                column = self.column(self.document.keys[path]) + style.unit
                end = self.line_end(at)
                return Splice(end, end, self.newline + " " * column + style.block(value, column))
            return Splice(at, at, " " + style.block(value, self.column(at) + 1))
        return Splice(at, at, " " + style.flow(value))

    def _added(self, path: KeyPath, value: Any) -> Steps:
        holder = path[:-1]
        while holder and holder not in self.document.values:
            _check_place(self.document, holder)
            holder = holder[:-1]
        if holder in self.document.aliases:
            line, column = self.document.place_of_value(holder)
            message = f"{holder[-1]} is an alias of another value: edit the file yourself"
            raise ConfigError(message, line=line, column=column)
        if path:
            for part in reversed(path[len(holder) + 1 :]):
                value = {part: value}
            found, part = get(self.data, holder), path[len(holder)]
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
            line, column = self.document.place_of_value(holder)
            raise ConfigError(f"{name} cannot have a member {part}", line=line, column=column)
        if found is None:
            return [self._begun({part: value} if path else value)]
        end = self.document.ends[holder]
        self._guard(holder, (end, end))
        style = Style(self, holder)
        start = self.document.values[holder]
        if not found and begins_line(self.text, start):  # what was left when a last member went
            value = {part: value} if isinstance(found, dict) else [value]
            return [Splice(start, end, style.block(value, self.column(start)))]
        if not self.is_block(holder):
            member = style.flow(value)
            if isinstance(found, dict):
                member = f"{style.key(str(part))}: {member}"
            return self._added_in_brackets(holder, member)
        first = self.items(holder)[0][0]
        column = self.column(first)
        text = (
            style.member(part, value, column)
            if isinstance(found, dict)
            else style.item(value, column)
        )
        at = self.line_end(end)
        return [Splice(at, at, self.newline + " " * column + text)]

    def _added_in_brackets(self, holder: KeyPath, member: str) -> list[Splice]:
        group = self.group(holder)
        indent = indentation(self.text, group.members[-1][0] if group.members else group.open)
        return group.added(
            member, line=self.newline + indent, gap=" " if group.members else "", closing=None
        )

    def _begun(self, value: Any) -> Splice:
        """Add the first value to a file that has none."""
        at = len(self.text)
        before = "" if not self.text or self.text.endswith("\n") else self.newline
        style = Style(self, ())
        return Splice(at, at, before + style.block(value, 0) + self.newline)

    # -- removing ------------------------------------------------------------------------------

    def drop(self, path: KeyPath) -> Steps:
        _check_place(self.document, path)
        holder = path[:-1]
        starts = self.document.keys if isinstance(path[-1], str) else self.document.values
        own = starts[path], self.document.ends[path]
        self._guard(holder, own)
        members = self.members(holder)
        index = members.index(own)
        if holder in self.document.flow:
            return self.group(holder).dropped(index)
        if len(members) == 1:
            return [Put(holder, {} if isinstance(get(self.data, holder), dict) else [])]
        items = self.items(holder)
        start, end = items[index]
        end = self.line_end(end)
        if index > 0:
            return [Splice(lines_before(self.text, start), end, "")]
        if begins_line(self.text, start):
            return [Splice(start - self.column(start), line_after(self.text, end), "")]
        follower = items[index + 1][0]
        if self.text[end:follower].strip():
            raise ConfigError(f"a comment stands behind {path[-1]}: edit the file yourself")
        return [Splice(start, follower, "")]

    # -- putting texts -------------------------------------------------------------------------

    def put_source(self, path: KeyPath, text: str) -> Steps:
        document = self.document
        source = Source(text)
        if path not in document.values:
            return self._added(path, source)
        start, end = document.values[path], document.ends[path]
        self._guard(path, (start, end))
        if not text:  # as before something was put behind the colon, or below it
            is_below = begins_line(self.text, start)
            return [Splice(line_before(self.text, start) if is_below else start - 1, end, "")]
        if not source.is_block:
            return [Splice(start, end, text)]
        column, is_line = self.column(start), begins_line(self.text, start)
        is_item = path != () and isinstance(path[-1], int) and not self.is_in_flow(path)
        is_list = isinstance(source.data, list)
        is_beside = is_line and is_list and self._is_beside(path, source.column)
        if (source.column == column or is_beside) and (is_line or is_item):
            first, end = start - column, self.line_end(end)
            grown_from, end = grown(self.text, first, end, text) if is_line else (first, end)
            if grown_from < first:
                return [Splice(grown_from, end, text)]
            return [Splice(first, end, text) if is_line else Splice(start, end, text[column:])]
        if text[0] in "&!" and not is_line:
            return [Splice(start, self.line_end(end), text)]
        if source.has_aliases:
            message = f"{path[-1]} has another layout now, and aliases: edit the file yourself"
            raise ConfigError(message, line=document.place(start)[0])
        return [Put(path, source.data)]


def _check_place(document: Document, path: KeyPath) -> None:
    """Refuse to edit what a merge key or an alias brings from elsewhere."""
    assert isinstance(document, YamlDocument)
    if path not in document.values and has(document.data, path):
        line, column = document.place_of_key(path)
        name = ".".join(map(str, path))
        message = f"{name} comes from another place by an alias: edit the file yourself"
        raise ConfigError(message, line=line, column=column)
