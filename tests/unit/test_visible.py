"""Text and JSON that a person decides by."""

from __future__ import annotations

import pytest

from mcpd import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本", "plain é 日本"),
        ("a\x1b]0;x\x07", "a⟨U+001B⟩]0;x⟨U+0007⟩"),
        ("\u202eb\u200d\ufe0f\U000e0041", "⟨U+202E⟩b⟨U+200D⟩⟨U+FE0F⟩⟨U+E0041⟩"),
        ("\u3164\u00a0\ud800", "⟨U+3164⟩⟨U+00A0⟩⟨U+D800⟩"),
    ],
)
def test_what_is_not_seen_is_spelled(text: str, shown: str) -> None:
    assert visible.text(text) == shown


def test_a_long_name_is_cut() -> None:
    assert visible.tool("s", "t" * 9, 4) == "s \u203a tttt…"


def test_arguments_have_sorted_names_and_numbers_as_they_were_written() -> None:
    value = visible.load('{"b":1.0,"a":[1e400,{"n":123456789012345678901,"x":null}],"c":{}}')
    assert list(visible.lines(value)) == [
        "{",
        '  "a": [',
        "    1e400,",
        "    {",
        '      "n": 123456789012345678901,',
        '      "x": null',
        "    }",
        "  ],",
        '  "b": 1.0,',
        '  "c": {}',
        "}",
    ]


def test_a_long_string_is_folded_with_its_length_and_hash() -> None:
    value = {"x": "y" * 2000, "n": '\n"\\'}
    lines = list(visible.lines(value))
    assert lines[1] == '  "n": "\\n\\"\\\\",'
    assert "2000 characters, sha256 " in lines[2] and len(lines[2]) < 300
    assert visible.has_folded(value) and not visible.has_folded({"x": ["y"]})
    assert visible.has_folded({"y" * 2000: 1})
