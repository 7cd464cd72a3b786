from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.logfiles.splitter import LineSplitter
from mcpd.redact import Redactor


def test_lines_end_at_newlines_with_or_without_a_carriage_return():
    assert LineSplitter().feed(b"one\ntwo\r\n\nfour") == ["one", "two", ""]


def test_a_line_may_come_in_pieces():
    splitter = LineSplitter()
    assert splitter.feed(b"on") == []
    assert splitter.feed(b"e\ntw") == ["one"]
    assert splitter.end() == ["tw"]
    assert splitter.end() == []


def test_bytes_that_are_no_text_are_replaced():
    assert LineSplitter().feed(b"caf\xe9\n") == ["caf\ufffd"]


def test_of_a_line_without_end_only_the_beginning_is_kept():
    """B064: a server that floods stderr takes no memory of ours."""
    splitter = LineSplitter(limit=10)
    for _ in range(1000):
        assert splitter.feed(b"x" * 1000) == []
    assert splitter._size == 10
    assert splitter.feed(b"\nnext\n") == ["xxxxxxxxxx […999990 more bytes]", "next"]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_where_the_stream_is_cut_makes_no_difference(data: bytes, cuts: list[int]):
    whole = LineSplitter(limit=20)
    expected = whole.feed(data) + whole.end()
    pieces = LineSplitter(limit=20)
    found = []
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        found += pieces.feed(data[start:end])
    assert found + pieces.end() == expected


@pytest.mark.parametrize("before", range(-2, 22))
def test_a_secret_across_the_limit_leaves_neither_head_nor_tail(before: int):
    secret = "Zqj-0123456789-jqZ"
    splitter = LineSplitter(limit=1000, mask_cut=Redactor([secret]).mask_cut)
    for byte in b"." * (1000 - before) + secret.encode() + b"." * 50 + b"\n":
        (lines,) = [splitter.feed(bytes([byte]))]
    (text,) = lines
    assert not any(secret[at : at + 3] in text for at in range(len(secret) - 2))
    assert text.startswith("." * 800)
    assert "more bytes]" in text


def test_a_line_of_nothing_but_secrets_does_not_end_in_half_of_one():
    """
    It gets shorter as it is masked, so what stood at the cut would be among what is kept.
    """
    secret = "Zqj-0123456789-jqZ"
    splitter = LineSplitter(limit=1000, mask_cut=Redactor([secret]).mask_cut)
    (text,) = splitter.feed(secret.encode() * 100 + b"\n")
    assert "Zqj" not in text
