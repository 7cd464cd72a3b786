"""Texts, and places in them."""

from __future__ import annotations

import pytest

from mcpd.config.document import Document, decode
from mcpd.errors import ConfigError


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
