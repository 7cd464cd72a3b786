"""Bytes as they come, to whole frames."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.bridge import frames
from mcpd.bridge.frames import Frames, without_bom


def fed(splitter: Frames, *pieces: bytes) -> list[bytes]:
    return [b"".join(chunks) for piece in pieces for chunks in splitter.feed(piece)]


@given(
    st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"\r")), max_size=6),
    st.lists(st.integers(0, 80), max_size=8),
)
def test_frames_come_out_as_they_went_in_wherever_they_are_cut(lines, cuts):
    """
    B058, B060: no byte is lost, added or moved to a neighbour.
    """
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    splitter = Frames()
    assert fed(splitter, *pieces) == [line + b"\n" for line in lines]
    assert b"".join(splitter.rest()) == b"rest"


def test_a_frame_that_is_all_there_is_is_not_copied():
    data = b'{"id":1}\n'
    [[frame]] = Frames().feed(data)
    assert frame is data


def test_a_large_frame_stays_in_pieces():
    """
    Joining it would take its size once more, and a bridge is to stay small.
    """
    splitter = Frames()
    piece = b"x" * (frames.JOINED_BYTES // 2)
    assert fed(splitter, piece, piece, piece) == []
    [chunks] = splitter.feed(b"y\n")
    assert chunks == [piece, piece, piece, b"y\n"]


def test_an_oversized_frame_is_skipped_and_the_next_one_comes_through():
    """
    B060, B061: of the frame its two ends are kept, nothing else.
    """
    splitter = Frames(limit=10)
    assert fed(splitter, b"exactly10\nhead-xxxxx", b"middle" * 1000) == [b"exactly10\n"]
    assert splitter.rest() == []
    assert fed(splitter, b"tail\nafter\n", b"1234567", b"89\nlast\n") == [
        b"after\n",
        b"123456789\n",
        b"last\n",
    ]
    assert splitter.cut == [(b"head-xxxxx", b"tail\n")]


def test_a_flood_without_a_newline_is_not_kept():
    """
    B061.
    """
    splitter = Frames(limit=1000)
    for _ in range(10_000):
        assert fed(splitter, b"x" * 100) == []
    assert sum(map(len, splitter._chunks)) <= 1200
    assert fed(splitter, b"\nok\n") == [b"ok\n"]


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        ([b"\xef\xbb\xbf{}\n"], [b"{}\n"]),
        ([b"\xef", b"\xbb\xbf{}\n"], [b"{}\n"]),
        ([b"\xef\xbb\xbf{", b"}\n"], [b"{", b"}\n"]),
        ([b"\xef\xbb{}\n"], [b"\xef\xbb{}\n"]),
        ([b'{"\xef\xbb\xbf":1}\n'], [b'{"\xef\xbb\xbf":1}\n']),
    ],
)
def test_a_byte_order_mark_is_left_out_wherever_a_frame_is_cut(chunks, wanted):
    """
    Within a message the same three bytes are text.
    """
    assert without_bom(chunks) == wanted
