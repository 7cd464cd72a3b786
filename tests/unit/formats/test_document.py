"""Texts, and places in them."""

from __future__ import annotations

import pytest

from mcpd.errors import ConfigError
from mcpd.formats import jsonc, toml
from mcpd.formats.document import Document, decode


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert decode(b"\xef\xbb\xbf{}") == "{}"


@pytest.mark.parametrize(
    ("raw", "place"), [(b"ab\nc\xff", (2, 2)), ("é\n😀".encode() + b"\xc3", (2, 2))]
)
def test_a_byte_that_is_not_utf_8_has_its_place(raw: bytes, place: tuple[int, int]) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(raw)
    assert (caught.value.details["line"], caught.value.details["column"]) == place


def test_utf_16_is_named() -> None:
    with pytest.raises(ConfigError, match="UTF-16"):
        decode("{}".encode("utf-16"))


def test_lines_and_columns_count_from_one() -> None:
    document = Document("ab\ncd\n")
    assert [document.place(offset) for offset in (0, 2, 3, 6)] == [(1, 1), (1, 3), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("parse", "text", "place"),
    [
        (jsonc.parse, '{"a": {“b”: 1}}', (1, 8)),
        (jsonc.parse, '{"a":\n “b”}', (2, 2)),
        (jsonc.parse, "{«a»: 1}", (1, 2)),
        (toml.parse, "a = 1\nb = “c”\n", (2, 5)),
        (toml.parse, "[servers.“a”]\n", (1, 10)),
        (toml.parse, "a = \u2018b\u2019\n", (1, 5)),
    ],
)
def test_a_typographic_quote_is_named_where_it_stands(parse, text, place):
    """
    Word processors and web pages put them into snippets that people copy.
    """
    with pytest.raises(ConfigError, match=r"is a typographic quote: strings stand in") as caught:
        parse(text)
    assert (caught.value.details["line"], caught.value.details["column"]) == place


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (jsonc.parse, '{"a": "b”}'),
        (jsonc.parse, '{"a": ["b”, "c"]}'),
        (toml.parse, 'a = "b”\n'),
        (toml.parse, 'a = ["b”, "c"]\n'),
    ],
)
def test_a_typographic_quote_that_ends_no_string_is_hinted_at(parse, text):
    with pytest.raises(ConfigError, match=r"” on this line is a typographic quote"):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (jsonc.parse, '{"a": "it\u2019s" x}'),
        (jsonc.parse, '{"a": "“b”"\n x}'),
        (toml.parse, "a = x # \u2019\n"),
    ],
)
def test_quotes_within_texts_and_on_other_lines_are_none_of_an_errors_business(parse, text):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert "typographic" not in caught.value.message
