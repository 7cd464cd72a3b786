"""Edits of TOML: of values, of lines, and of tables with all of their headers."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from mcpd.editing.edits import (
    Drop,
    Edit,
    Put,
    PutSource,
    Splice,
    Steps,
    drop,
    get,
    has,
    innermost,
    same,
)
from mcpd.editing.group import HASHES, Group, indentation, line_after, lines_before, newline
from mcpd.editing.leftovers import grown
from mcpd.editing.toml_text import Source, key_text, value_text
from mcpd.errors import ConfigError
from mcpd.formats import toml
from mcpd.formats.document import Document, KeyPath
from mcpd.formats.toml import TomlDocument

_EQUALS = re.compile(r"[ \t]*[A-Za-z0-9_.-]+([ \t]*=[ \t]*)")
_TITLE = re.compile(r"(?:[ \t]*#[^\n]*\n)+(?:[ \t]*\r?\n)+")

_CUT: Final = "\f"
"""Stands between the parts of a source that is of several places; TOML itself cannot hold it."""


class _Statement(NamedTuple):
    """A header or a pair: its lines, with indentation and the comment behind it."""

    path: KeyPath
    section: KeyPath
    is_header: bool
    start: int
    end: int


class TomlSyntax:
    """TOML 1.0."""

    def read(self, text: str) -> tuple[Any, list[KeyPath]]:
        """Return the data; nothing is written twice, since TOML refuses that."""
        return toml.loads(text), []

    def parse(self, text: str) -> Document:
        """Return the data with the position of each value."""
        return toml.parse(text)

    def source(self, document: Document, text: str, path: KeyPath) -> str:
        """Return the text of the value at ``path``, which exists.

        For a table with headers this is the text from its first line to its last. Where other
        tables stand between, it is the text of each part, and where each but the first belongs.
        """
        return _Editor(document, text).source(path)

    def touched(self, document: Document, edit: Edit) -> KeyPath:
        """Return the path of a value inside which the edit changes the text, and no other does."""
        if isinstance(edit, Drop):
            return innermost(document.data, edit.path[:-1])
        if isinstance(edit, PutSource) and edit.path not in document.ends:
            return ()  # a part of it may go back to a place among other tables
        return innermost(document.data, edit.path)

    def splices(self, document: Document, text: str, edit: Edit) -> Steps:
        """Return how the text changes, or simpler edits that do the same."""
        editor = _Editor(document, text)
        match edit:
            case Put():
                return editor.put(edit.path, edit.value)
            case Drop():
                return editor.drop(edit.path)
        return editor.put_source(edit.path, edit.text)


class _Editor:
    """A document and its text, while one edit is made of them."""

    def __init__(self, document: Document, text: str) -> None:
        assert isinstance(document, TomlDocument)
        self._document = document
        self._data = document.data
        self._text = text
        self._newline = newline(text)
        self._statements = self._find_statements()

    # -- reading -------------------------------------------------------------------------------

    def source(self, path: KeyPath) -> str:
        if path in self._document.ends:
            return self._text[self._document.values[path] : self._document.ends[path]]
        if not path:
            return self._text
        if not self._of(path):
            raise ConfigError(f"{path[-1]} stands in several places of one line")
        parts: list[str] = []
        for run in self._runs(path):
            if parts:
                parts.append(self._anchor(run[0]))
            parts.append(self._text[run[0].start : run[-1].end])
        return _CUT.join(parts)

    def _find_statements(self) -> list[_Statement]:
        document, reach = self._document, 0
        found = [(start, end, path, True) for path, start, end in document.headers]
        found += [
            (start, document.ends[path], path, False) for path, start in document.pairs.items()
        ]
        statements: list[_Statement] = []
        section: KeyPath = ()
        for start, end, path, is_header in sorted(found, key=lambda each: each[0]):
            if start < reach:  # within an inline table
                continue
            reach = end
            section = path if is_header else section
            first = self._text.rfind("\n", 0, start) + 1
            tail = HASHES.tail.match(self._text, end)
            assert tail is not None  # the pattern matches the empty string too
            statements.append(_Statement(path, section, is_header, first, tail.end()))
        return statements

    def _of(self, path: KeyPath) -> list[_Statement]:
        """Return the statements that a value is made of."""
        return [each for each in self._statements if each.path[: len(path)] == path]

    def _runs(self, path: KeyPath) -> list[list[_Statement]]:
        """Return the same statements, those together that nothing else stands between."""
        runs: list[list[_Statement]] = []
        is_open = False
        for each in self._statements:
            belongs = each.path[: len(path)] == path
            if belongs and is_open:
                runs[-1].append(each)
            elif belongs:
                runs.append([each])
            is_open = belongs
        return runs

    def _group(self, path: KeyPath) -> Group:
        """Return the members of an inline table or of a list."""
        document = self._document
        start, end = document.values[path], document.ends[path] - 1
        if self._text[start] == "[":
            inner = [(*path, number) for number in range(len(get(self._data, path)))]
            members = [(document.values[each], document.ends[each]) for each in inner]
        else:
            members = sorted(
                (at, document.ends[each])
                for each, at in document.pairs.items()
                if each[: len(path)] == path and start < at < end
            )
            members = [
                each
                for number, each in enumerate(members)
                if not any(other[0] < each[0] < other[1] for other in members[:number])
            ]
        return Group(self._text, start, end, members, HASHES)

    # -- removing ------------------------------------------------------------------------------

    def drop(self, path: KeyPath) -> Steps:
        inline = next((path[:n] for n in range(len(path)) if path[:n] in self._document.ends), None)
        if inline is None:
            return [self._cut(run, path) for run in self._runs(path)]
        holder = path[:-1]
        if holder not in self._document.ends:  # `{ a.b = 1 }`: of a table that is only named
            return [Put(inline, drop(get(self._data, inline), path[len(inline) :]))]
        group = self._group(holder)
        starts = [start for start, _ in group.members]
        at = (
            self._document.values[path]
            if isinstance(path[-1], int)
            else self._document.pairs.get(path)
        )
        if at not in starts:  # `{ a.b = 1 }` again, of which `a` goes
            return [Put(holder, drop(get(self._data, holder), path[len(holder) :]))]
        return group.dropped(starts.index(at))

    def _cut(self, run: list[_Statement], path: KeyPath) -> Splice:
        """Remove statements, with the blank lines before them, or behind the first ones."""
        start, end = run[0].start, run[-1].end
        above = next(each for each in self._runs(path[:-1]) if run[0] in each)
        if start == 0 or (above[0] is run[0] and above[-1] is not run[-1]):
            return Splice(start, line_after(self._text, end), "")
        return Splice(lines_before(self._text, start), end, "")

    # -- putting values ------------------------------------------------------------------------

    def put(self, path: KeyPath, value: Any) -> Steps:
        document = self._document
        if path in document.ends:
            return [Splice(document.values[path], document.ends[path], value_text(value))]
        if not has(self._data, path):
            return self._added(path, value)
        old = get(self._data, path)
        if not isinstance(value, dict) or not isinstance(old, dict) or not value:
            other: list[Edit] = [Drop(path), Put(path, value)]
            return other
        edits: list[Edit] = [
            Put((*path, name), each)
            for name, each in value.items()
            if name not in old or not same(old[name], each)
        ]
        edits += [Drop((*path, name)) for name in old if name not in value]
        return edits

    def _added(self, path: KeyPath, value: Any) -> Steps:
        holder = innermost(self._data, path[:-1])
        rest = path[len(holder) :]
        is_list = isinstance(get(self._data, holder), list)
        if not isinstance(get(self._data, holder), (dict, list)) or is_list != isinstance(
            rest[0], int
        ):
            name = ".".join(map(str, holder)) or "the file"
            line, column = self._document.place_of_value(holder)
            raise ConfigError(f"{name} cannot have a member {rest[0]}", line=line, column=column)
        inline = next(
            (path[:n] for n in range(len(holder), -1, -1) if path[:n] in self._document.ends), None
        )
        if inline is not None:
            return self._added_inline(inline, path[len(inline) :], len(holder) - len(inline), value)
        if is_list:
            for part in reversed(rest[1:]):
                value = {part: value}
            return [self._table_of_list(holder, value)]
        is_table = isinstance(value, dict) and bool(value)
        if len(rest) > 1 and not is_table and not self._is_inline(holder):
            return self._added(path[:-1], {rest[-1]: value})
        if is_table and not self._is_inline(holder):
            return [self._section(holder, self._table(f"[{key_text(path)}]", value))]
        return [self._line(holder, rest, value)]

    def _table_of_list(self, holder: KeyPath, value: Any) -> Splice:
        if not isinstance(value, dict):
            line, column = self._document.place_of_value(holder)
            message = f"{holder[-1]} is a list of tables: edit the file yourself"
            raise ConfigError(message, line=line, column=column)
        return self._section(holder, self._table(f"[[{key_text(holder)}]]", value))

    def _table(self, header: str, value: dict[str, Any]) -> str:
        lines = [header, *(self._pair((name,), each) for name, each in value.items())]
        return self._newline.join(lines)

    def _added_inline(self, holder: KeyPath, rest: KeyPath, named: int, value: Any) -> list[Splice]:
        """Add a member in brackets, behind as many names as there are already (`a.b = 1`)."""
        for part in reversed(rest[named + 1 :]):
            value = {part: value}
        group = self._group(holder)
        if isinstance(rest[0], int):
            indent = indentation(self._text, group.members[-1][0] if group.members else group.open)
            return group.added(
                value_text(value),
                line=self._newline + indent,
                gap=" " if group.members else "",
                closing=None,
            )
        space = "" if group.members or self._text[group.close - 1] != "{" else " "
        member = f"{key_text(rest[: named + 1])} = {value_text(value)}"
        return group.added(f"{space}{member}{space}", line=" ", gap=" ", closing=None)

    def _is_inline(self, holder: KeyPath) -> bool:
        """Return whether the tables of a table are written inline, or by dotted keys."""
        headers = [path[: len(holder) + 1] for path, _, _ in self._document.headers]
        return bool(holder) and any(
            isinstance(value, dict) and (*holder, name) not in headers
            for name, value in get(self._data, holder).items()
        )

    def _section(self, holder: KeyPath, text: str) -> Splice:
        """Add lines behind all that belongs to a table."""
        statements = self._of(holder)
        if statements:
            at = statements[-1].end
            return Splice(at, at, self._newline * 2 + text)
        gap = "" if not self._text.strip() else self._newline
        if self._text and not self._text.endswith("\n"):
            gap += self._newline
        at = len(self._text)
        return Splice(at, at, gap + text + self._newline)

    def _line(self, holder: KeyPath, rest: KeyPath, value: Any) -> Splice:
        """Add a line to a table, behind its last one."""
        own = [each for each in self._statements if each.section == holder]
        dotted = [
            each
            for each in self._of(holder)
            if not each.is_header and each.section != holder and len(each.section) < len(holder)
        ]
        if own or dotted:
            last = own[-1] if own else dotted[-1]
            key = rest if own else (*holder[len(last.section) :], *rest)
            pairs = [each for each in (own or dotted) if not each.is_header]
            indent = indentation(self._text, pairs[-1].start if pairs else last.start)
            return Splice(last.end, last.end, self._newline + indent + self._pair(key, value))
        if not holder:
            title = _TITLE.match(self._text)
            at = title.end() if title else 0
            gap = self._newline if self._text[at:].strip() else ""
            return Splice(at, at, self._pair(rest, value) + self._newline + gap)
        at = self._of(holder)[0].start  # it is named in headers of other tables alone
        lines = [f"[{key_text(holder)}]", self._pair(rest, value), "", ""]
        return Splice(at, at, self._newline.join(lines))

    def _pair(self, key: KeyPath, value: Any) -> str:
        pairs = (each for each in self._statements if not each.is_header)
        found = (_EQUALS.match(self._text, each.start) for each in pairs)
        equals = next((each[1] for each in found if each), " = ")
        return f"{key_text(key)}{equals}{value_text(value)}"

    # -- putting texts -------------------------------------------------------------------------

    def put_source(self, path: KeyPath, text: str) -> Steps:
        document = self._document
        value, table = _value_of(text), _table_of(text, path)
        if value is not None and table is not None:  # `[1]`, of `1`
            raise ConfigError(f"{text} may be a list or a table: edit the file yourself")
        if path in document.ends and value is not None:
            return [Splice(document.values[path], document.ends[path], text)]
        if not has(self._data, path):
            if value is not None:
                return self._added(path, Source(text))
            holder = innermost(self._data, path[:-1])
            is_header = text.lstrip().startswith("[")
            if is_header and _CUT not in text and holder not in document.ends:
                return [self._section(holder, text)]
        elif path not in document.ends and table is not None and self._of(path):
            return self._put_parts(path, text.split(_CUT))
        found = table if value is None else value
        if found is None:
            raise ConfigError(f"the text of {'.'.join(map(str, path))} is no TOML")
        return [Put(path, found["v"])]

    def _put_parts(self, path: KeyPath, parts: list[str]) -> list[Splice]:
        """Replace the places of a table; those that are missing come back where they stood."""
        runs = self._runs(path)
        texts, anchors = parts[::2], parts[1::2]
        if len(runs) == len(texts):
            pairs = zip(runs, texts, strict=True)
            return [self._replaced(run, text) for run, text in pairs]
        splices = [self._replaced(runs[0], texts[0])]
        for text, anchor in zip(texts[1:], anchors, strict=True):
            splices.append(self._back(text, anchor, runs[0][-1].end))
        return splices + [self._cut(run, path) for run in runs[1:]]

    def _replaced(self, run: list[_Statement], text: str) -> Splice:
        start, end = grown(self._text, run[0].start, run[-1].end, text)
        return Splice(start, end, text)

    def _anchor(self, first: _Statement) -> str:
        """Return where a statement stands: behind which one, and what is between them."""
        before = self._statements[self._statements.index(first) - 1]
        return json.dumps([before.path, before.is_header, self._text[before.end : first.start]])

    def _back(self, text: str, anchor: str, otherwise: int) -> Splice:
        path, is_header, gap = json.loads(anchor)
        kept = gap.rstrip()
        for each in self._statements:
            at = each.end + len(kept)
            is_it = each.is_header == is_header and each.path == tuple(path)
            if is_it and self._text.startswith(kept, each.end):
                start, end = grown(self._text, at, at, text)
                return Splice(start, end, gap[len(kept) :] + text)
        return Splice(otherwise, otherwise, self._newline * 2 + text)


def _value_of(text: str) -> dict[str, Any] | None:
    """Return ``{"v": value}`` if the text is that of a value."""
    try:
        found = toml.loads(f"v = {text}")
    except ConfigError:
        return None
    return found if list(found) == ["v"] else None


def _table_of(text: str, path: KeyPath) -> dict[str, Any] | None:
    """Return ``{"v": value}`` if the text is that of a table with headers or dotted keys."""
    try:
        data = toml.loads("\n".join(text.split(_CUT)[::2]))
    except ConfigError:
        return None
    names = [part for part in path if isinstance(part, str)]
    for start in range(len(names)):
        if has(data, tuple(names[start:])):
            found = get(data, tuple(names[start:]))
            return {"v": found[0] if isinstance(path[-1], int) else found}
    return None
