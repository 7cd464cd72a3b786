"""Edits of JSON: what changes, and that nothing else does."""

from __future__ import annotations

import pytest

from mcpd.editing.edits import Drop, Edit, Put, PutSource
from mcpd.editing.file import Format, parse
from mcpd.errors import ConfigError

ODD = (
    b'{\n  // a comment with "quotes", {braces} and \\ in it\n'
    b'  "unknown": [1e400, 12345678901234567890, "\\u00e9\\/", "\xc3\xa9"],\n\n\n'
    b'  "servers": {\n    "zeta": {"command": "uvx", "args": ["z"]}, // tail\n'
    b'    /* "files": {"command": "commented out"}, */\n'
    b'    "files": {\n      "command": "uvx",\n      "args": ["server-files"]\n    },\n'
    b'    "alpha": {"url": "https://h.invalid"}\n  },\n  "z": null,   "a":{ }\n}'
)
FILES = ("servers", "files")


def edited(text: str, *edits: Edit, format: Format = "jsonc") -> str:
    return parse(text.encode(), format).edited(edits).encode().decode()


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ('{"a": 1}', Put(("a",), 2), '{"a": 2}'),
        ('{"a": 1}', Put(("b",), [1, {}]), '{"a": 1, "b": [1, {}]}'),
        ('{"a":1}', Put(("b",), {"x": [1, 2]}), '{"a":1,"b":{"x":[1,2]}}'),
        ('{"a" : 1,}', Put(("b",), 2), '{"a" : 1, "b" : 2,}'),
        ("{}", Put(("a",), 1), '{\n  "a": 1\n}'),
        ("{ }\n", Put(("a", "b"), {}), '{\n  "a": {\n    "b": {}\n  }\n}\n'),
        ('{\n\t"a": 1\n}', Put(("b",), {"x": 1}), '{\n\t"a": 1,\n\t"b": {\n\t\t"x": 1\n\t}\n}'),
        ('{\r\n "a": 1 // x\r\n}', Put(("b",), 2), '{\r\n "a": 1, // x\r\n "b": 2\r\n}'),
        ('{\n  "a": 1, // x\n}', Put(("b",), 2), '{\n  "a": 1, // x\n  "b": 2,\n}'),
        ('{\n  "a": 1 /* x */ }', Put(("b",), 2), '{\n  "a": 1,\n  "b": 2 /* x */ }'),
        ('{"a": {\n  }}', Put(("a", "b"), 1), '{"a": {\n  "b": 1\n  }}'),
        ('{"l": [1]}', Put(("l", 1), 2), '{"l": [1, 2]}'),
        ('{"l": [1]}', Put(("l", 0), 2), '{"l": [2]}'),
        ('{"l": []}', Put(("l", 0), 2), '{"l": [2]}'),
        ('{"a": 1, "b": 2}', Drop(("a",)), '{"b": 2}'),
        ('{"a": 1, "b": 2}', Drop(("b",)), '{"a": 1}'),
        ('{"a": 1, "b": 2,}', Drop(("b",)), '{"a": 1,}'),
        ('{ "a": 1 }', Drop(("a",)), "{ }"),
        ('{\n  "a": 1, // a\n  "b": 2 // b\n}', Drop(("b",)), '{\n  "a": 1 // a\n}'),
        ('{\n  "a": 1, // a\n  "b": 2 // b\n}', Drop(("a",)), '{\n  "b": 2 // b\n}'),
        ('{\n  /* b */ "a": 1\n  // c\n}', Drop(("a",)), "{\n  /* b */\n  // c\n}"),
        ('{"a": 1, /* b */ "b": 2}', Drop(("a",)), '{/* b */ "b": 2}'),
        ('{"l": [1, 2, 3]}', Drop(("l", 1)), '{"l": [1, 3]}'),
        ('{"a": 1}', Drop(("b",)), '{"a": 1}'),
        ('{"a": 1.0}', Put(("a",), 1.0), '{"a": 1.0}'),
        ('{"a": 1.0}', Put(("a",), 1), '{"a": 1}'),
        ('{"a": "\\u00e9"}', Put(("a",), "\u00e9"), '{"a": "\\u00e9"}'),
        ('{"a": 1}', Put(("é\n",), "\ud800"), '{"a": 1, "é\\n": "\\ud800"}'),
    ],
)
def test_the_smallest_splice(text: str, edit: Edit, expected: str) -> None:
    assert edited(text, edit) == expected


@pytest.mark.parametrize("change", ["", "CRLF", "BOM", "tabs"])
def test_a_text_that_is_put_back_makes_the_file_what_it_was(change: str) -> None:
    raw = ODD
    if change == "CRLF":
        raw = raw.replace(b"\n", b"\r\n")
    if change == "BOM":
        raw = b"\xef\xbb\xbf" + raw
    if change == "tabs":
        raw = raw.replace(b"  ", b"\t")
    before = parse(raw, "jsonc")
    after = before.edited(
        [
            Put((*FILES, "command"), "/bin/mcpctl"),
            Put((*FILES, "args"), ["connect", "files"]),
            Put((*FILES, "env"), {"A": "1"}),
        ]
    )
    assert after.data["servers"]["files"]["args"] == ["connect", "files"]
    assert after.encode() != raw
    assert after.edited([PutSource(FILES, before.source(FILES))]).encode() == raw


def test_edits_are_made_one_after_the_other() -> None:
    edits = [Put(("a",), {"x": 1}), Put(("a", "y"), 2), Drop(("a", "x")), Put(("a", "y"), 3)]
    assert edited("{}", *edits, format="json") == '{\n  "a": {\n    "y": 3\n  }\n}'


def test_a_text_may_come_back_as_the_last_member() -> None:
    text = '{\n  "a": {"x": 1.10},\n  "b": 2\n}'
    source = parse(text.encode(), "json").source(("a",))
    without = edited(text, Drop(("a",)), format="json")
    assert edited(without, PutSource(("a",), source)) == '{\n  "b": 2,\n  "a": {"x": 1.10}\n}'


@pytest.mark.parametrize(
    ("format", "text", "line", "column"),
    [
        ("json", '{\n  // strict\n  "a": 1\n}', 2, 3),
        ("json", '{"a": 1\n/**/}', 2, 1),
        ("json", '{"a": {\n"b": 1,}}', 2, 7),
        ("json", "[1,\n2\n,]", 3, 1),
        ("json with comments", '{ // x\n"a": [1,\n]}', 2, 8),
        ("jsonc", '{"a": 1', 1, 8),
        ("jsonc", "", 1, 1),
    ],
)
def test_what_the_format_does_not_allow_is_refused_with_its_place(
    format: Format, text: str, line: int, column: int
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), format)
    assert caught.value.details == {"line": line, "column": column}


def test_a_name_that_is_written_twice_is_not_edited() -> None:
    text = '{"s": {"a": {"x": 1, "x": 2}, "b": 1,\n"b": 2}, "c": 3}'
    file = parse(text.encode(), "json")
    assert sorted(file.repeated) == [("s", "a", "x"), ("s", "b")]
    with pytest.raises(ConfigError, match="written twice") as caught:
        file.edited([Put(("s", "b", "y"), 1)])
    assert caught.value.details["line"] == 2
    after = file.edited([Put(("s", "a"), {}), Put(("c",), 4)])
    assert after.text == '{"s": {"a": {}, "b": 1,\n"b": 2}, "c": 4}'
    back = after.edited([PutSource(("s", "a"), file.source(("s", "a"))), Put(("c",), 3)])
    assert back.text == text


@pytest.mark.parametrize("source", ['1, "b": 2', "1} //", "1 // x", " 1", "", "{"])
def test_a_text_that_would_change_more_is_refused(source: str) -> None:
    with pytest.raises(ConfigError):
        edited('{"a": 0, "c": {"d": 1}}', PutSource(("a",), source))


@pytest.mark.parametrize("path", [("a", "b"), ("l", 2), ("l", "x"), (0,)])
def test_a_member_of_what_is_no_table_is_refused(path: tuple[str | int, ...]) -> None:
    with pytest.raises(ConfigError):
        edited('{"a": 1, "l": [1]}', Put(path, 1))


def test_numbers_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigError):
        edited("{}", Put(("a",), float("inf")))


def test_lines_are_those_of_keys() -> None:
    file = parse(ODD, "jsonc")
    assert file.line(FILES) == 9
    assert file.line(("servers", "nothing")) == 6
