"""JSON with comments means what JSON means, and nothing that is read raises anything else."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath, decode
from mcpd.formats.jsonc import parse

texts = st.text(st.characters(codec=None, exclude_categories=[]), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
blanks = st.sampled_from(["", " ", "\r\n\t", '// a " comment, {\n', '/* [ " */', "\n/**/ "])


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_plain_json_is_read_as_json(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse(text).data == json.loads(text)


@given(values, st.data())
def test_comments_and_trailing_commas_change_nothing(value: object, data: st.DataObject) -> None:
    assert parse(_written(value, data)).data == json.loads(json.dumps(value))


def _written(value: object, data: st.DataObject) -> str:
    before, after, comma = (
        data.draw(blanks),
        data.draw(blanks),
        data.draw(st.sampled_from(["", ","])),
    )
    match value:
        case dict():
            parts = [
                f"{data.draw(blanks)}{json.dumps(key)}{data.draw(blanks)}:{_written(inner, data)}"
                for key, inner in value.items()
            ]
            body = "{" + ",".join(parts) + (comma if parts else "") + after + "}"
        case list():
            parts = [_written(inner, data) for inner in value]
            body = "[" + ",".join(parts) + (comma if parts else "") + after + "]"
        case _:
            body = json.dumps(value) + after
    return before + body


@given(values)
def test_every_value_has_a_place_where_it_stands(value: object) -> None:
    text = json.dumps(value)
    document = parse(text)

    def check(path: KeyPath, expected: object) -> None:
        at = document.values[path]
        found, _ = json.JSONDecoder().raw_decode(text, at)
        assert found == expected
        if isinstance(expected, dict):
            for key, inner in expected.items():
                check((*path, key), inner)
        elif isinstance(expected, list):
            for number, inner in enumerate(expected):
                check((*path, number), inner)

    check((), json.loads(text))


pieces = st.lists(
    st.sampled_from([*'{}[],:"\\/*\n 10-.eE', "true", "null", "//", "/*", "*/", '"a"', "\\u12"])
    | st.text(max_size=3),
    max_size=30,
).map("".join)


@given(st.text() | pieces)
@example("/*/")
@example('"\\')
@example("-")
@example("[" * 2000)
@example('{"a":' * 2000)
@example("1e999")
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    refusal = _refusal(lambda: parse(text))
    if refusal is None:
        return
    line, column = refusal.details["line"], refusal.details["column"]
    lines = text.split("\n")
    assert 1 <= line <= len(lines)
    assert 1 <= column <= len(lines[line - 1]) + 1
    with pytest.raises((ValueError, RecursionError)):  # what JSON is, is never refused
        json.loads(text, parse_constant=_refuse)


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_text_or_refused_with_a_place(raw: bytes) -> None:
    refusal = _refusal(lambda: decode(raw))
    if refusal is not None:
        assert 1 <= refusal.details["line"] <= raw.count(b"\n") + 1
        assert 1 <= refusal.details["column"] <= len(raw)


def _refusal(read: Callable[[], object]) -> ConfigError | None:
    try:
        read()
    except ConfigError as error:
        return error
    return None


def _refuse(name: str) -> float:
    raise ValueError(name)
