"""Any bytes, cut anywhere, are the same frames."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from mcpd.core.wire.framing import EDGE_BYTES, Framer, Oversized

PIECES = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xef", b"\xbb", b" ", b"{}", b"abcdefgh", b"\x00"]
)
STREAMS = st.lists(PIECES | st.binary(max_size=20), max_size=30).map(b"".join)


def reference(data: bytes, limit: int) -> list[bytes | Oversized]:
    """Say the same in the plainest way, for bytes that are all there."""
    frames: list[bytes | Oversized] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1]:
        frame = line.removesuffix(b"\r")
        if len(frame) > limit:
            # of a line that is longer by far, the carriage return may still be in the tail
            frames.append(Oversized(frame[:EDGE_BYTES], frame[-EDGE_BYTES:], len(frame)))
        elif frame.strip():
            frames.append(frame)
    return frames


def plain(frame: bytes | Oversized) -> object:
    return "oversized" if isinstance(frame, Oversized) else frame


@given(STREAMS, st.lists(st.integers(0, 400), max_size=20), st.integers(1, 60))
@example(b"\xef\xbb\xbf\n\n", [1, 2], 5)
@example(b"abc\r\nabcd\r\n", [4], 3)
def test_frames_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int], limit: int):
    framer = Framer(limit)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found: list[bytes | Oversized] = []
    for start, end in itertools.pairwise(edges):
        found += framer.feed(data[start:end])
    assert [plain(f) for f in found] == [plain(f) for f in reference(data, limit)]
    for one, other in zip(found, reference(data, limit), strict=True):
        if isinstance(one, Oversized) and isinstance(other, Oversized):
            assert one.head.startswith(other.head) or other.head.startswith(one.head)
            assert one.tail.rstrip(b"\r").endswith(other.tail.rstrip(b"\r")[-20:])
    rest = data.rpartition(b"\n")[2]
    if b"\n" in data:
        assert framer.partial_bytes() == len(rest)


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 5000))
def test_of_a_line_without_end_little_is_kept(limit: int, chunk: int, chunks: int):
    """
    B061: whatever the sizes, not more than the limit and the two ends.
    """
    framer = Framer(limit)
    for _ in range(chunks):
        assert framer.feed(b"x" * chunk) == []
    kept = len(framer._buffer) + len(framer._head) + len(framer._tail)
    assert kept <= limit + chunk + 2 * EDGE_BYTES
    assert framer.partial_bytes() == chunk * chunks
