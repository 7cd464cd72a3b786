"""The scanner finds in TOML just what ``tomllib`` does."""

from __future__ import annotations

import json
import tomllib

from hypothesis import example, given
from hypothesis import strategies as st

from mcpd.errors import ConfigError
from mcpd.formats.document import Document, KeyPath
from mcpd.formats.toml import parse

names = st.text("abc-_1", min_size=1, max_size=3) | st.sampled_from(["a.b", "", "#", "é ]", '"'])
keys = names.map(lambda name: name if name.strip("abc-_1") == "" and name else json.dumps(name))
strings = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
scalars = st.one_of(
    st.integers(-99, 99).map(str),
    st.sampled_from(["true", "1.5e3", "inf", "1979-05-27", "1979-05-27 07:32:00", "0xFF"]),
    strings.map(lambda text: json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")),
    strings.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    st.sampled_from(['"""a\n]"" # \\""" """', "'''\n[x]\n'' '''", '"""\\\n  a"""""']),
)
gaps = st.sampled_from(["", " ", "\n", " # c ] }\n", "\t"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(st.tuples(gaps, inner, gaps).map("".join), max_size=3).map(
            lambda parts: "[" + ",".join(parts) + "]"
        ),
        st.lists(st.tuples(keys, inner).map(" = ".join), max_size=3).map(
            lambda parts: "{ " + " , ".join(parts) + " }"
        ),
    ),
    max_leaves=8,
)
dotted = st.lists(keys, min_size=1, max_size=3).map(" . ".join)
lines = st.one_of(
    st.tuples(dotted, values).map(" = ".join),
    dotted.map(lambda key: f"[ {key} ] # [c]"),
    dotted.map(lambda key: f"[[{key}]]"),
    st.sampled_from(["", "# a = 1", "\t"]),
)


@given(st.lists(lines, max_size=8), st.sampled_from(["\n", "\r\n"]))
@example(
    ["[[a]]", "b = 1", "[[a.c]]", "[[a.c]]", "[a.c.d]", "[[a]]", "[[a.c]]", "x = {y.z = 1}"], "\n"
)
@example(["[a.b]", "c = [", "1, [2, {d = ']'}] ]", "[a]", "x.y = 1"], "\r\n")
def test_every_value_has_a_place_where_it_stands(parts: list[str], newline: str) -> None:
    text = newline.join(parts)
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        expected = None
    document, refusal = _read(text)
    if document is None:
        assert expected is None
        assert refusal is not None
        assert 1 <= refusal.details["line"] <= text.count("\n") + 1
        return
    assert document.data == expected
    assert set(document.values) == set(_paths((), expected))
    for path, offset in document.values.items():
        assert 0 <= offset <= len(text), path


def _read(text: str) -> tuple[Document | None, ConfigError | None]:
    try:
        return parse(text), None
    except ConfigError as error:
        return None, error


def _paths(path: KeyPath, value: object) -> list[KeyPath]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _paths((*path, key), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            found += _paths((*path, number), inner)
    return found


@given(st.text() | st.lists(lines | st.text(max_size=4), max_size=6).map("\n".join))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    _, refusal = _read(text)
    if refusal is not None:
        assert 1 <= refusal.details["line"] <= text.count("\n") + 1
        assert refusal.details["column"] >= 1
