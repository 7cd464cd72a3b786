"""Lines out of bytes, whatever the chunking."""

from __future__ import annotations

import itertools
import sys
import time

import pytest

from mcpd.core.wire.framing import EDGE_BYTES, Framer, Oversized, has_many_lines

LIMIT = 10_000


def feed(*chunks: bytes, limit: int = LIMIT) -> list[bytes | Oversized]:
    framer = Framer(limit)
    return [frame for chunk in chunks for frame in framer.feed(chunk)]


def split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def kept_bytes(framer: Framer) -> int:
    """Return what a framer holds on to, objects included."""
    return sys.getsizeof(framer._buffer) + len(framer._head) + len(framer._tail)


def test_each_line_is_a_frame():
    assert feed(b'{"a":1}\n{"b":2}\n') == [b'{"a":1}', b'{"b":2}']


def test_a_frame_may_come_in_pieces():
    assert feed(b"ab", b"cd", b"\nef", b"\n") == [b"abcd", b"ef"]


def test_an_unfinished_line_is_not_a_frame():
    framer = Framer(LIMIT)
    assert framer.feed(b"one\ntwo") == [b"one"]
    assert framer.partial_bytes() == 3


def test_nothing_fed_is_nothing_found():
    assert feed(b"", b"a", b"", b"\n", b"") == [b"a"]


@pytest.mark.parametrize(
    "mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"], ids=ascii
)
def test_lines_end_at_line_feeds_alone(mark: str):
    line = f'{{"text":"a{mark}b"}}'.encode()
    assert feed(line + b"\n") == [line]


def test_a_carriage_return_before_the_line_feed_is_left_out():
    assert feed(b"one\r\ntwo\r", b"\nthree\r\n") == [b"one", b"two", b"three"]


def test_one_carriage_return_is_left_out_and_no_more():
    assert feed(b"one\r\r\n") == [b"one\r"]


def test_blank_lines_are_nothing():
    assert feed(b"\n\r\n  \n\t\r\n", b" ", b"\n", b"one\n\n") == [b"one"]


@pytest.mark.parametrize("cuts", [(0,), (1,), (2,), (3,), (1, 2), (1, 2, 3), (2, 7)])
def test_a_byte_order_mark_at_the_start_is_left_out(cuts: tuple[int, ...]):
    data = b'\xef\xbb\xbf{"a":1}\n{}\n'
    edges = [0, *cuts, len(data)]
    chunks = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert feed(*chunks) == [b'{"a":1}', b"{}"]


def test_half_a_byte_order_mark_is_what_it_is():
    assert feed(b"\xef", b"\xbb", b"x\n") == [b"\xef\xbbx"]


def test_a_byte_order_mark_elsewhere_is_kept():
    assert feed(b"a\n\xef\xbb\xbfb\n") == [b"a", b"\xef\xbb\xbfb"]


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20])
@pytest.mark.parametrize("chunk", [4_096, 65_536, 65_537, 1 << 20])
def test_a_long_line_comes_through_whole(size: int, chunk: int):
    """
    B058: readers with a limit of 64 KiB break on the first large result.
    """
    line = b"x" * (size - 1) + b"y"
    assert feed(*split(line + b"\nnext\n", chunk), limit=1 << 24) == [line, b"next"]


def test_a_long_line_costs_what_its_length_costs():
    """
    B058: 16 MiB arrive in 64 reads or in 4,096. Scanning again what was scanned before would
    make the second cost as much as sixty times the first.
    """
    line = b"x" * (1 << 24)

    def seconds(chunk: int) -> float:
        chunks = split(line + b"\n", chunk)
        began = time.perf_counter()
        assert feed(*chunks, limit=1 << 25) == [line]
        return time.perf_counter() - began

    few = min(seconds(1 << 18) for _ in range(3))
    many = min(seconds(1 << 12) for _ in range(3))
    assert many < 10 * few + 0.05


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 99, 100, 101, 1000])
def test_a_line_at_the_limit_passes_and_the_next_one_is_unharmed(more: int, end: bytes, chunk: int):
    """
    B060: an overrun exactly at the newline glues two frames, or loses the second.
    """
    line = b"x" * (100 + more)
    first, second, third = feed(*split(line + end + b"two" + end + b"three\n", chunk), limit=100)
    assert (second, third) == (b"two", b"three")
    if more <= 0:
        assert first == line
    else:
        assert isinstance(first, Oversized)


@pytest.mark.parametrize("chunk", [1, 7, 100, 10**6])
def test_of_a_line_over_the_limit_the_ends_are_kept(chunk: int):
    line = b'{"id":1,' + bytes(range(32, 127)) * 300 + b',"id":2}'
    (found,) = feed(*split(line + b"\n", chunk), limit=LIMIT)
    assert isinstance(found, Oversized)
    assert found.head == line[:EDGE_BYTES]
    assert found.tail == line[-EDGE_BYTES:]
    assert found.size_bytes == len(line)


@pytest.mark.parametrize("chunk", [1, 7, 100, 10**6])
def test_a_line_barely_over_the_limit_has_both_its_ends(chunk: int):
    line = b"a" * 98 + b"bcde"
    (found,) = feed(*split(line + b"\n", chunk), limit=100)
    assert isinstance(found, Oversized)
    assert (found.head, found.tail, found.size_bytes) == (line, line, 102)


def test_a_line_without_an_end_is_not_buffered():
    """
    B061: a peer that never ends its line must not make us hold all that it writes.
    """
    framer = Framer(LIMIT)
    chunk = b"x" * 1_000
    most = 0
    for _ in range(5_000):
        assert framer.feed(chunk) == []
        most = max(most, kept_bytes(framer))
    assert framer.partial_bytes() == 5_000_000
    assert most < LIMIT + 2 * EDGE_BYTES + 2_000
    (found,) = framer.feed(b"\n")
    assert isinstance(found, Oversized)
    assert framer.partial_bytes() == 0
    assert kept_bytes(framer) < 200


@pytest.mark.parametrize("size", [1, 2, 33])
def test_tiny_pieces_cost_no_more_than_their_bytes(size: int):
    """
    B061: an object for each two bytes would be twenty times what the peer has sent.
    """
    framer = Framer(1 << 20)
    for piece in split(b"x" * 200_000, size):
        framer.feed(piece)
    assert kept_bytes(framer) < 250_000
    assert framer.feed(b"\n") == [b"x" * 200_000]


def test_frames_do_not_change_when_more_comes():
    framer = Framer(LIMIT)
    framer.feed(b"a")
    framer.feed(b"b")
    (frame,) = framer.feed(b"c\n")
    framer.feed(b"d")
    framer.feed(b"e")
    assert frame == b"abc" and type(frame) is bytes


@pytest.mark.parametrize(
    ("data", "many", "more"),
    [
        (b"", 0, False),
        (b"a", 0, False),
        (b"\n", 0, True),
        (b"a\nb\n", 2, False),
        (b"\n\n\n", 2, True),
    ],
)
def test_a_chunk_of_many_lines_is_told_from_others(data: bytes, many: int, more: bool):
    assert has_many_lines(data, many) is more


def test_the_head_of_a_partial_frame_is_available():
    framer = Framer(100)
    framer.feed(b"{}\nbe")
    framer.feed(b"gun")
    assert (framer.partial_head(), framer.partial_bytes()) == (b"begun", 5)
    framer.feed(b"x" * 200)
    assert framer.partial_head().startswith(b"begunx")
    framer.feed(b"\n")
    assert (framer.partial_head(), framer.partial_bytes()) == (b"", 0)
