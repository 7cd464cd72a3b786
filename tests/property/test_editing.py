"""Edits of random files change what they are asked to change, and can be taken back."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.editing.edits import Drop, Edit, Put, PutSource, drop, put, same
from mcpd.editing.file import File, Format, parse
from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath

names = st.sampled_from(["files", "a.b", "x y", "é", "z", "n-1", "on", "#", "<<", "-", "1", 'q"q'])
texts = st.sampled_from(
    [
        "",
        "uvx",
        "-y",
        "a: b",
        "# no",
        "é",
        "two\nlines",
        "'",
        '"',
        "\\",
        "${X}",
        " x ",
        "yes",
        "1e3",
    ]
) | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
scalars = texts | st.integers(-5, 99) | st.booleans() | st.sampled_from([0.5, 1e22])
lists = st.lists(texts, max_size=3)
tables = st.dictionaries(names, texts, max_size=3)
entries = st.fixed_dictionaries(
    {"command": texts},
    optional={"args": lists, "env": tables, "timeout": scalars, "name": texts, "more": tables},
)
seeds = st.integers(0, 2**32)
servers = st.dictionaries(names, entries, min_size=1, max_size=4)


class Layout:
    """Random choices while a file is written; too many to be drawn from hypothesis one by one."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def comment(self, text: str) -> str:
        """Return a comment that no other is equal to."""
        self._count += 1
        return f"# {self._count}: {text}"

    def maybe(self) -> bool:
        return self._random.random() < 0.5


# -- JSON --------------------------------------------------------------------------------------


def json_text(value: Any, layout: Layout, indent: str, trailing: bool) -> str:
    """Write JSON with comments, odd spacing and, where allowed, trailing commas."""
    if not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=layout.maybe())
    is_table = isinstance(value, dict)
    blanks = layout.one("", " ", "\n", "// x, {\n", "/* ] */") if layout.maybe() else ""
    is_spread = layout.maybe()
    line = "\n" + indent + "  " if is_spread else layout.one("", " ")
    parts = []
    for name, each in value.items() if is_table else enumerate(value):
        inner = json_text(each, layout, indent + "  ", trailing)
        key = (
            json.dumps(name) + layout.one("", " ") + ":" + layout.one("", " ", "\n")
            if is_table
            else ""
        )
        tail = layout.one("", "", " // tail\n", "/* in */")
        parts.append(line + key + inner + tail)
    comma = layout.one("", ",") if trailing and parts else ""
    end = ("\n" + indent if is_spread else "") + blanks
    left, right = "{}" if is_table else "[]"
    return left + (blanks if not parts else "") + ",".join(parts) + comma + end + right


def json_file(wanted: dict[str, Any], layout: Layout) -> str:
    trailing = layout.maybe()
    text = json_text({"n": 1.50, "servers": wanted, "z": [None]}, layout, "", trailing)
    start = text.index("{") + 1
    return text[:start] + '"dup": 1, "dup": {"a": 1e400, "a": 2},' + text[start:]


# -- TOML --------------------------------------------------------------------------------------


def toml_key(name: str, layout: Layout) -> str:
    if name.isascii() and name.replace("-", "").isalnum() and layout.maybe():
        return name
    return json.dumps(name, ensure_ascii=False)


def toml_value(value: Any, layout: Layout) -> str:
    match value:
        case str() if layout.maybe() and "'" not in value and value.isprintable():
            return f"'{value}'"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            line = layout.one("", " ", "\n  ", " # [\n")
            return "[" + ",".join(line + toml_value(each, layout) for each in value) + line + "]"
        case dict():
            pairs = [f"{toml_key(k, layout)} = {toml_value(v, layout)}" for k, v in value.items()]
            return "{" + layout.one("", " ") + ", ".join(pairs) + "}"
        case bool():
            return str(value).lower()
    return repr(value)


def toml_lines(value: dict[str, Any], head: str, layout: Layout) -> list[str]:
    """Write the pairs of a table, then its tables; each part may be moved elsewhere."""
    pairs, parts = [], []
    for name, each in value.items():
        key = toml_key(name, layout)
        tail = layout.one("", " # tail", "   ", "\n" + layout.comment("between"), "\n")
        if isinstance(each, dict) and layout.maybe():
            parts += toml_lines(each, f"{head}.{key}", layout)
        elif isinstance(each, dict) and each and layout.maybe():
            pairs += [
                f"{key}.{toml_key(k, layout)}={toml_value(v, layout)}" for k, v in each.items()
            ]
        else:
            pairs.append(layout.one("", "  ") + f"{key} = {toml_value(each, layout)}{tail}")
    gap = layout.one("", "\n", layout.comment("about") + "\n", f"\n\n{layout.comment('far')}\n\n")
    return ["\n".join([f"{gap}[{head}]{layout.one('', ' # head')}", *pairs]), *parts]


def toml_file(wanted: dict[str, Any], layout: Layout) -> str:
    parts, inline = [], []
    for name, entry in wanted.items():
        key = toml_key(name, layout)
        if layout.maybe():
            parts += toml_lines(entry, f"servers.{key}", layout)
        else:
            inline.append(f"{key} = {toml_value(entry, layout)} # inline")
    if inline:
        parts.insert(0, "\n".join(["[servers]", *inline]))
    number = layout.one(*range(len(parts) + 1))
    parts.insert(number, "[other] # o\nk = 1e3")
    if layout.maybe():
        parts.append("[[list]]\na = 1\n\n[[list]]\n[list.sub]\nb = 2")
    top = layout.one("", "# title\n\n", "n.m = 0x1F # hex\n")
    return top + "\n".join(parts) + layout.one("", "\n", "\n\n# the end\n")


# -- YAML --------------------------------------------------------------------------------------


def yaml_scalar(value: Any, layout: Layout, column: int) -> str:
    if isinstance(value, str):
        if value.isalpha() and value.isascii() and value not in ("yes", "on") and layout.maybe():
            return value
        if value.isprintable() and layout.maybe():
            return "'" + value.replace("'", "''") + "'"
        if value == "two\nlines" and column >= 0:
            return f"|-\n{' ' * column}two\n{' ' * column}lines"
        return json.dumps(value)
    return json.dumps(value)


def yaml_flow(value: Any, layout: Layout) -> str:
    comma = "," + layout.one("", " ", "  ")
    if isinstance(value, dict):
        pairs = [f"{yaml_scalar(k, layout, -1)}: {yaml_flow(v, layout)}" for k, v in value.items()]
        return "{" + comma.join(pairs) + layout.one("", " ") + "}"
    if isinstance(value, list):
        return "[" + comma.join(yaml_flow(each, layout) for each in value) + "]"
    return yaml_scalar(value, layout, -1)


def yaml_text(value: Any, layout: Layout, column: int) -> str:
    """Return what stands behind a colon or a dash whose lines begin before ``column``."""
    if not isinstance(value, (dict, list)):
        return " " + yaml_scalar(value, layout, column)
    if not value or (column and layout.maybe()):
        return layout.one(" ", "  ") + yaml_flow(value, layout)
    lines = []
    if isinstance(value, list):
        column -= 2 if column >= 2 and layout.maybe() else 0
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if layout.one("", "", "#"):
            lines.append(
                ""
                if layout.maybe()
                else layout.one(" " * column, " ") + layout.comment("- note: x")
            )
        sign = f"{yaml_scalar(name, layout, -1)}:" if isinstance(value, dict) else "-"
        inner = yaml_text(each, layout, column + layout.one(2, 4))
        tail = layout.one("", " # tail") if "\n" not in inner else ""
        lines.append(" " * column + sign + inner + tail)
    return "\n" + "\n".join(lines)


def yaml_file(wanted: dict[str, Any], layout: Layout) -> str:
    as_list = [{"name": name, **entry} for name, entry in wanted.items()]
    value = {"n": 1.5, "servers": wanted, "list": as_list, "z": layout.one("end", "é")}
    text = yaml_text_of_items(as_list, layout) if layout.maybe() else ""
    return (
        layout.one("", "# top\n", "---\n")
        + yaml_text(value, layout, 0).lstrip(" \n")
        + ("\nitems:\n" + text if text else "")
        + layout.one("", "\n", "\n\n# the end\n", "\nempty:\n")
    )


def yaml_text_of_items(items: list[dict[str, Any]], layout: Layout) -> str:
    """Write a list of tables as Continue does, each beginning on the line of its dash."""
    lines = []
    for item in items:
        members = [
            f"{yaml_scalar(k, layout, -1)}:{yaml_text(v, layout, 6)}" for k, v in item.items()
        ]
        lines.append("  - " + "\n    ".join(members))
    return "\n".join(lines)


WRITERS = {"jsonc": json_file, "toml": toml_file, "yaml": yaml_file}


def written(format: Format, wanted: dict[str, Any], seed: int) -> File:
    layout = Layout(seed)
    text = WRITERS[format](wanted, layout)
    if layout.maybe():
        text = text.replace("\n", "\r\n")
    bom = b"\xef\xbb\xbf" if layout.maybe() else b""
    raw = bom + text.encode()
    file = parse(raw, format)
    assert file.encode() == raw
    return file


def paths_of(file: File) -> list[KeyPath]:
    """Return the paths of the entries of servers."""
    found: list[KeyPath] = [("servers", name) for name in file.data["servers"]]
    if isinstance(file.data.get("items"), list):
        found += [("items", number) for number in range(len(file.data["items"]))]
    return found


def check(before: File, edits: list[Edit], after: File) -> None:
    """Compare a file with what edits make of the data, as the data alone says."""
    wanted = before.data
    for edit in edits:
        match edit:
            case Put():
                wanted = put(wanted, edit.path, edit.value)
            case Drop():
                wanted = drop(wanted, edit.path)
    assert same(parse(after.encode(), after.format).data, wanted)


@pytest.mark.parametrize("format", WRITERS)
@given(wanted=servers, args=lists, seed=seeds, data=st.data())
def test_an_adopted_entry_comes_back(
    format: Format, wanted: dict[str, Any], args: list[str], seed: int, data: st.DataObject
) -> None:
    """
    As adopt and release do: some members of some entries are put, others dropped.
    """
    before = written(format, wanted, seed)
    paths = data.draw(st.lists(st.sampled_from(paths_of(before)), unique=True))
    edits: list[Edit] = []
    for path in paths:
        edits += [Put((*path, "command"), "/bin/mcpctl"), Put((*path, "args"), args)]
        edits += [Drop((*path, name)) for name in ("env", "cwd")]
    after = before.edited(edits)
    check(before, edits, after)
    assert after.edited(edits).text == after.text
    back = after.edited([PutSource(path, before.source(path)) for path in paths])
    assert back.encode() == before.encode()


@pytest.mark.parametrize("format", WRITERS)
@given(wanted=servers, entry=entries, seed=seeds, data=st.data())
def test_a_replaced_entry_comes_back(
    format: Format, wanted: dict[str, Any], entry: dict[str, Any], seed: int, data: st.DataObject
) -> None:
    before = written(format, wanted, seed)
    path = data.draw(st.sampled_from(paths_of(before)))
    after = before.edited([Put(path, entry)])
    check(before, [Put(path, entry)], after)
    assert after.edited([PutSource(path, before.source(path))]).encode() == before.encode()


@pytest.mark.parametrize("format", WRITERS)
@given(wanted=servers, entry=entries, seed=seeds, data=st.data())
def test_members_come_and_go(
    format: Format, wanted: dict[str, Any], entry: dict[str, Any], seed: int, data: st.DataObject
) -> None:
    before = written(format, wanted, seed)
    path = data.draw(st.sampled_from(paths_of(before)))
    edits: list[Edit] = [
        Put(("servers", "new"), entry),
        Put((*path, "more", "x"), 1),
        Drop((*path, "command")),
        Drop((*path, "timeout")),
        Put(("top",), ["t"]),
    ]
    after = before.edited(edits)
    check(before, edits, after)
    for comment in re.findall(r"# \d+: .*", before.text):
        assert comment in after.text


PIECES = {
    "jsonc": ['{"a": ', "[", "]", "}", ",", '"b"', ":", "1", "//\n", "/**/", "\n", " ", "null"],
    "toml": ["[a]\n", "[a.b]\n", "[[l]]\n", "a", ".", "b", " = ", "1", "'x'", "{", "}", "[", "]", ",", "#\n", "\n", "c = {d.e = 1}\n"],
    "yaml": ["a", "b", ": ", "- ", "\n", "  ", "#", "{", "}", "[", "]", ", ", "&x ", "*x", "<<: ", "? ", "|", "'q'", "!t ", "---", "\n  "],
}  # fmt: skip
STARTS = {
    "jsonc": ["", '{"a": {"b": 1}, "c": [1, {"d": 2}]', '{"a":\n{"b":1,"b":2}'],
    "toml": ["", "[a]\nb = 1\n[a.c]\nd = [1, {e = 2}]\n", "a.b = 1\na.c.d = 2\n"],
    "yaml": [
        "",
        "a: &x\n  b: 1\nc: *x\nd:\n  - e: 1\n    f: [1]\n  - 2\n",
        "a:\n- - b\n  - c: {d: 1}\n",
    ],
}


@pytest.mark.parametrize("format", PIECES)
@given(data=st.data())
def test_any_text_is_edited_or_refused(format: Format, data: st.DataObject) -> None:
    """
    Whatever stands in a file: nothing but a ``ConfigError`` is raised, and no other value changes.
    """
    pieces = st.lists(st.sampled_from(PIECES[format]), max_size=8).map("".join)
    text = data.draw(st.sampled_from(STARTS[format])) + data.draw(pieces)
    try:
        before = parse(text.encode(), format)
    except ConfigError as error:
        place = error.details
        assert place["line"] >= 1 and place["column"] >= 1
        return
    path = data.draw(st.sampled_from(list(all_paths(before.data))))
    value = data.draw(st.sampled_from([1, "x", {}, [], {"n": {"m": [1]}}, [{"n": 1}]]))
    edit = data.draw(st.sampled_from([Put(path, value), Put((*path, "new"), value), Drop(path)]))
    if not path or "" in path:  # `: : ` is YAML, and nobody writes it
        return
    try:
        source = before.source(path)
        after = before.edited([edit])
    except ConfigError:
        return
    if isinstance(edit, Put):
        check(before, [edit], after)
        try:
            back = after.edited([PutSource(path, source)])
        except ConfigError:
            return
        assert same(back.data, before.data)
        has_kept_its_form = format != "toml" or path != edit.path
        assert back.text == before.text or not has_kept_its_form


def all_paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from all_paths(each, (*path, key))
