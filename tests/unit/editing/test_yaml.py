"""Edits of YAML: what changes, and that nothing else does."""

from __future__ import annotations

import pytest

from mcpd.editing.edits import Drop, Edit, Put, PutSource
from mcpd.editing.file import parse
from mcpd.errors import ConfigError

HEAD = "# mine\nmodel: 'gpt'   # why\nlist: [a,  b]\n"
TAIL = '\n# the end\nlast: "x"\nempty:\n'
GOOSE = (
    HEAD + "extensions:\n  files:\n    name: files\n    cmd: uvx\n    args: [server-files]\n"
    "    type: stdio\n    enabled: true  # on\n    timeout: 300\n" + TAIL
)
CONTINUE = (
    HEAD + "mcpServers:\n  - name: files\n    command: uvx\n    args: [server-files]\n" + TAIL
)
ANCHORS = "base: &b\n  x: 1\n  y: &y [1]\nc:\n  <<: *b\n  d: *y\n  e: &z 1\nf: *b\n"


def edited(text: str, *edits: Edit) -> str:
    return parse(text.encode(), "yaml").edited(edits).encode().decode()


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ("a: 1  # x\n", Put(("a",), "q"), "a: q  # x\n"),
        ("a: 'x'\n", Put(("a",), "it's"), "a: 'it''s'\n"),
        ('a: "x"\n', Put(("a",), "é\n"), 'a: "é\\n"\n'),
        ("a: x\n", Put(("a",), "yes"), 'a: "yes"\n'),
        ("a: x\n", Put(("b",), None), "a: x\nb: null\n"),
        ("a: x # c", Put(("b",), 1.5), "a: x # c\nb: 1.5"),
        ("", Put(("a", "b"), [1]), "a:\n  b:\n    - 1\n"),
        ("# nothing\n", Put(("a",), {}), "# nothing\na: {}\n"),
        ("a:\n", Put(("a",), 1), "a: 1\n"),
        ("a: # c\nb: 1\n", Put(("a", "x"), {"z": 1}), "a: # c\n  x:\n    z: 1\nb: 1\n"),
        ("a: {}\n", Put(("a", "x"), 1), "a: {x: 1}\n"),
        ("l: []\n", Put(("l", 0), 1), "l: [1]\n"),
        ("l:\n- a\nm: 1\n", Put(("l", 1), {"x": 1, "z": [2]}), "l:\n- a\n- x: 1\n  z:\n  - 2\nm: 1\n"),
        ("a:\r\n    b: 1\r\n\r\n# c\r\n", Put(("a", "d"), {"x": 1}),
         "a:\r\n    b: 1\r\n    d:\r\n        x: 1\r\n\r\n# c\r\n"),
        ("a: {b: 1, c: [x, y]}\n", Put(("a", "d"), {"e": ["f"]}), "a: {b: 1, c: [x, y], d: {e: [f]}}\n"),
        ("a: {b: 1}\n", Put(("a", "b"), "x, y"), 'a: {b: "x, y"}\n'),
        ("a: |\n  x\n  y\nb: 1\n", Put(("a",), "z"), "a: z\nb: 1\n"),
        ("a: 1\nb: 2 # b\n# c\nd: 3\n", Drop(("b",)), "a: 1\n# c\nd: 3\n"),
        ("a: 1\nb: 2\n", Drop(("a",)), "b: 2\n"),
        ("a:\n  b: 1\nc: 2\n", Drop(("a", "b")), "a:\n  {}\nc: 2\n"),
        ("l:\n  - a: 1\n    b: 2\n  - c\n", Drop(("l", 0, "a")), "l:\n  - b: 2\n  - c\n"),
        ("l:\n  - a # x\n  # y\n  - b\n", Drop(("l", 1)), "l:\n  - a # x\n  # y\n"),
        ("l:\n  - - a\n    - b\n  - c\n", Drop(("l", 0, 0)), "l:\n  - - b\n  - c\n"),
        ("a: {b: 1, c: 2}\n", Drop(("a", "b")), "a: {c: 2}\n"),
        ("a: {b: 1}\n", Drop(("a", "b")), "a: {}\n"),
        ("a: 1\n", Drop(("b",)), "a: 1\n"),
        ("---\na: 1\n...\n", Put(("a",), 2), "---\na: 2\n...\n"),
        ("a: 2026-01-01\n", Put(("b",), "2026-01-01"), 'a: 2026-01-01\nb: "2026-01-01"\n'),
        ("a: x\n", Put(("b",), "\U0001f600\x85"), 'a: x\nb: "\U0001f600\\x85"\n'),
    ],
)  # fmt: skip
def test_the_smallest_splice(text: str, edit: Edit, expected: str) -> None:
    assert edited(text, edit) == expected


@pytest.mark.parametrize(
    ("text", "path", "program"),
    [(GOOSE, ("extensions", "files"), "cmd"), (CONTINUE, ("mcpServers", 0), "command")],
)
def test_only_the_lines_of_an_entry_change(
    text: str, path: tuple[str | int, ...], program: str
) -> None:
    before = parse(text.encode(), "yaml")
    after = before.edited(
        [Put((*path, program), "/bin/mcpctl"), Put((*path, "args"), ["connect", "files"])]
    )
    assert after.text == text.replace(" uvx", " /bin/mcpctl").replace(
        "[server-files]", "[connect, files]"
    )
    assert after.edited([PutSource(path, before.source(path))]).text == text


SOURCES = [
    "s:\n  a:\n    # first\n    x: 1\n    # last\n    y: [1]  # tail\n\n# end\nb: 1\n",
    "s:\n  a: {x: 1, 'y': [1]}  # tail\nb: 1\n",
    's:\n  "a": {"x": "1"}\n',
    "s:\n    a:\n        x: |\n            one\n            two\n        # y\n        y:\n        - 1\n",
    "s:\n  a: &n\n    x: 1\n    z: {k: v}\nt: 1\n",
    "s:\n  a:\n    x:\n      k: |-\n        one\n    y: 1\n",
    "s:\n  a:\n    x: |\n          one\n",
]


@pytest.mark.parametrize("text", [*SOURCES, *(each.replace("\n", "\r\n") for each in SOURCES)])
@pytest.mark.parametrize(
    "edits",
    [
        [Put(("s", "a", "x"), "/m"), Drop(("s", "a", "y"))],
        [Drop(("s", "a", "x")), Put(("s", "a", "n"), {"q": 1})],
        [Put(("s", "a"), {"n": [1], "m": {"q": 1}})],
        [Put(("s", "a"), {})],
        [Put(("s", "a"), "text")],
    ],
)
def test_a_text_that_is_put_back_makes_the_file_what_it_was(text: str, edits: list[Edit]) -> None:
    path = ("s", "a")
    before = parse(text.encode(), "yaml")
    after = before.edited(edits)
    assert after.text != text
    assert after.edited([PutSource(path, before.source(path))]).text == text


def test_a_text_is_put_in_the_form_that_the_file_has_now() -> None:
    source = parse(GOOSE.encode(), "yaml").source(("extensions", "files"))
    wanted = parse(GOOSE.encode(), "yaml").data["extensions"]["files"]
    for other in ("extensions: {files: {cmd: x}}\n", "extensions:\n      files:\n        cmd: x\n"):
        after = parse(other.encode(), "yaml").edited([PutSource(("extensions", "files"), source)])
        assert after.data == {"extensions": {"files": wanted}}


def test_lists_in_lists_come_back_as_they_were() -> None:
    """
    From its second line on, the text of ``a`` is that of a list of two as well.
    """
    text = "a:\n- - b\n  - c: 1\n"
    before = parse(text.encode(), "yaml")
    after = before.edited([Put(("a",), [{"x": 1}])])
    assert after.text == "a:\n- x: 1\n"
    assert after.edited([PutSource(("a",), before.source(("a",)))]).text == text
    deeper = parse(b"a:\n    - x: 1\n", "yaml")
    assert deeper.edited([PutSource(("a",), before.source(("a",)))]).data == before.data


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (Put(("base", "x"), 2), 1),
        (Put(("base", "n"), 2), 1),
        (Drop(("base", "x")), 1),
        (Put(("base",), {}), 3),
        (Put(("base", "y", 0), 2), 3),
        (Drop(("base",)), 3),
        (Drop(("c", "x")), 5),
        (Put(("c", "y", 0), 2), 5),
        (Put(("f", "x"), 3), 8),
        (Put(("c", "d", 0), 2), 6),
        (Drop(("f", "x")), 8),
    ],
)
def test_what_stands_elsewhere_by_an_alias_is_not_changed(edit: Edit, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        edited(ANCHORS, edit)
    assert caught.value.details["line"] == line
    assert "edit the file yourself" in caught.value.message


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (Put(("c", "x"), 2), "  e: &z 1\n", "  e: &z 1\n  x: 2\n"),
        (Put(("c", "d"), 3), "d: *y", "d: 3"),
        (Put(("f",), 3), "f: *b", "f: 3"),
        (Drop(("f",)), "f: *b\n", "\n"),
        (Drop(("c",)), "c:\n  <<: *b\n  d: *y\n  e: &z 1\n", ""),
        (Put(("c", "e"), 2), "&z 1", "2"),
    ],
)
def test_around_aliases_edits_are_made(edit: Edit, old: str, new: str) -> None:
    after = edited(ANCHORS, edit)
    assert after.rstrip("\n") == ANCHORS.replace(old, new).rstrip("\n")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: 1\n---\nb: 2\n", 2, 1),
        ("a: [1\n", 2, 1),
        ("a: 'x\n", 2, 1),
        ("a: *b\n", 1, 4),
        ("a:\n\t- b\n", 2, 1),
        ("[a]: b\n", 1, 1),
        ("a: \x01\n", 1, 4),
        ("a: " + "[" * 200, 1, 104),
        ("a: " + "9" * 5000, 1, 4),
    ],
)
def test_what_is_not_read_is_refused_with_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "yaml")
    assert caught.value.details == {"line": line, "column": column}


def test_aliases_that_make_billions_are_refused() -> None:
    lines = ["a0: &a0 [x]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)
    ]
    with pytest.raises(ConfigError, match="the aliases make"):
        parse("\n".join(lines).encode(), "yaml")


def test_a_name_that_is_written_twice_is_not_edited() -> None:
    file = parse(b"s:\n  a: 1\n  a: {x: 2}\nb: 1\n", "yaml")
    assert file.data == {"s": {"a": {"x": 2}}, "b": 1}
    assert file.repeated == [("s", "a")]
    with pytest.raises(ConfigError, match="written twice"):
        file.edited([Put(("s", "a", "x"), 1)])
    assert file.edited([Put(("b",), 2)]).text == "s:\n  a: 1\n  a: {x: 2}\nb: 2\n"


def test_scalars_have_the_types_of_yaml_1_2() -> None:
    text = "[yes, 012, 0o14, 0x1F, 1e3, .inf, ~, 2026-01-01, '1', !!str 1, !x 1, 1:20]"
    assert parse(text.encode(), "yaml").data == [
        "yes", 12, 12, 31, 1000.0, float("inf"), None, "2026-01-01", "1", "1", "1", "1:20",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        (
            "l: &a-b # - x\n  - a\n  - b\n",
            Put(("l", 2), "c"),
            "l: &a-b # - x\n  - a\n  - b\n  - c\n",
        ),
        ("l: &a-b\n  # - x\n  - a\n  - b\n", Drop(("l", 1)), "l: &a-b\n  # - x\n  - a\n"),
        ("l: !x [a]\n", Put(("l", 1), "b"), "l: !x [a, b]\n"),
        ("m: &a {x: 1}\n", Put(("m", "z"), 2), "m: &a {x: 1, z: 2}\n"),
        ("? a\n: b\nc: 1\n", Put(("a",), "x"), "? a\n: x\nc: 1\n"),
        ("a: - b\n", Put(("a",), "x"), None),
        ("l: [a: 1]\n", Put(("l", 0, "b"), 2), None),
        ("? a\n: b\nc: 1\n", Drop(("a",)), None),
    ],
)
def test_odd_forms_are_edited_or_refused(text: str, edit: Edit, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ConfigError):
            edited(text, edit)
    else:
        assert edited(text, edit) == expected


def test_a_list_in_the_column_of_its_key_gives_way_and_comes_back() -> None:
    """Its items may stand there; `[]` may not."""
    text = "items:\n  - args:\n    # why\n    - a\n    - b\n    last: 1\n"
    path = ("items", 0, "args")
    before = parse(text.encode(), "yaml")
    for value in ([], "plain", ["c"]):
        after = before.edited([Put(path, value)])
        assert after.data == {"items": [{"args": value, "last": 1}]}
        assert after.edited([PutSource(path, before.source(path))]).encode() == text.encode()
