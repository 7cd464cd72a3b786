"""JSON with comments and places."""

from __future__ import annotations

import pytest

from mcpd.errors import ConfigError
from mcpd.formats.jsonc import parse


def place_of_error(text: str) -> tuple[int, int]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return caught.value.details["line"], caught.value.details["column"]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("{} // the end", {}),
        ('// first\n{"a": 1}', {"a": 1}),
        ('{"a": /* within */ 1}', {"a": 1}),
        ("/* one *//* two */[/**/]", []),
        ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}),
        ('{"url": "http://x/*y*/", "path": "a//b"}', {"url": "http://x/*y*/", "path": "a//b"}),
        ('{\r\n  "a": 1, // note\r\n  "b": 2\r\n}\r\n', {"a": 1, "b": 2}),
        (r'["\u00e9\n\"\\/", "\ud83d\ude00", "\ud800"]', ['é\n"\\/', "😀", "\ud800"]),
        ("[true, false, null, -0.5e3, 12345678901234567890]", None),
    ],
)
def test_what_people_write_is_read(text: str, data: object) -> None:
    """
    B099: a comment or a trailing comma must not cost every server.
    """
    expected = [True, False, None, -500.0, 12345678901234567890] if data is None else data
    assert parse(text).data == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, 1)),
        ("  \n // nothing\n", (3, 1)),
        ("{ nonsense", (1, 3)),
        ('{"mcpServers": \n {"fake": {"command": "x" "y"}}}', (2, 27)),
        ('{"a": 1,\r\n "b" 2}', (2, 6)),
        ("[1, 2", (1, 6)),
        ("[,]", (1, 2)),
        ("[1 /* never closed", (1, 4)),
        ('{"a": "no end\n"}', (1, 7)),
        (r'["good", "\x"]', (1, 11)),
        ("[True]", (1, 2)),
        ("['single']", (1, 2)),
        ("[NaN]", (1, 2)),
        ("[01]", (1, 3)),
        ("{} {}", (1, 4)),
        ("[" + "9" * 5000 + "]", (1, 2)),
        ("[" * 5000, (1, 101)),
    ],
)
def test_a_syntax_error_has_its_line_and_column(text: str, place: tuple[int, int]) -> None:
    assert place_of_error(text) == place


def test_every_key_and_value_has_its_place() -> None:
    document = parse('{\n  "a": {"b": [10,\n   20]}\n}')
    assert document.place_of_key(("a", "b")) == (2, 9)
    assert document.place_of_value(("a", "b", 1)) == (3, 4)
    assert document.place_of_value(("a", "missing")) == (2, 8)


def test_a_name_written_twice_has_the_places_of_the_last() -> None:
    document = parse('{"x": {"old": 1},\n "x": {"new": 2}}')
    assert document.data == {"x": {"new": 2}}
    assert document.repeated == [("x",)]
    assert document.place_of_value(("x", "new")) == (2, 15)
    assert ("x", "old") not in document.values
