"""Event streams as the HTML standard has them, however they are cut."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.wire.framing import Oversized
from mcpd.core.wire.sse import SseParser

LINES = st.sampled_from(
    [
        b"data: one", b"data:two", b"data", b"data:", b"data:  indented", b"data: a: b", b"event: other",
        b"event", b"id: 7", b"id", b"id: a\0b", b"id: \xc3\xa9", b"retry: 1500", b"retry: soon", b"retry:",
        b"retry: -1", b": comment", b":", b"", b"", b"", b"unknown: x", b"baz", b" data: x", b"data \xe2\x80\xa8: y",
        b"data: \xf0\x9f\x98\x80", b"data: \xe2\x80\xa8\xc2\x85",
    ]
)  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf"]), st.lists(st.tuples(LINES, ENDS), max_size=30)
).map(lambda both: both[0] + b"".join(line + end for line, end in both[1]))


def reference(stream: bytes) -> tuple[list[tuple[bytes, str]], str, int | None]:
    """The algorithm of the standard, word for word, over the whole stream."""
    events: list[tuple[bytes, str]] = []
    data, name, ident, last_id, retry = b"", "", "", "", None
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:
        if not line:
            last_id = ident
            if data:
                events.append((data.removesuffix(b"\n"), name or "message"))
            data, name = b"", ""
            continue
        if line.startswith(b":"):
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data += value + b"\n"
        elif field == b"id" and b"\0" not in value:
            ident = value.decode("utf-8", "replace")
        elif field == b"retry" and re.fullmatch(rb"[0-9]+", value):
            retry = int(value)
    return [event for event in events if event[0]], last_id, retry


def parse(
    chunks: list[bytes], limit: int = 1 << 20
) -> tuple[list[tuple[object, str]], str, int | None]:
    parser = SseParser(limit)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return [(event.data, event.name) for event in events], parser.last_id, parser.retry_ms


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[begin:end] for begin, end in itertools.pairwise(at)]


@given(STREAMS, st.lists(st.integers(min_value=0), max_size=40))
def test_any_chunks_are_what_the_standard_says(stream: bytes, places: list[int]) -> None:
    assert parse(cut(stream, places)) == reference(stream)


@given(STREAMS)
def test_a_byte_at_a_time(stream: bytes) -> None:
    assert parse([bytes([byte]) for byte in stream]) == reference(stream)


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=10))
def test_any_bytes_are_cut_anywhere(stream: bytes, places: list[int]) -> None:
    assert parse(cut(stream, places)) == reference(stream)


@given(
    STREAMS, st.lists(st.integers(min_value=0), max_size=40), st.integers(min_value=1, max_value=12)
)
def test_an_event_over_the_limit_is_the_only_one_that_is_lost(
    stream: bytes, places: list[int], limit: int
) -> None:
    got, last_id, retry = parse(cut(stream, places), limit)
    wanted = reference(stream)
    assert (last_id, retry) == wanted[1:] and len(got) == len(wanted[0])
    for (data, name), (whole, its_name) in zip(got, wanted[0], strict=True):
        assert name == its_name
        if len(whole) <= limit:
            assert data == whole
        else:
            assert isinstance(data, Oversized) and data.size_bytes == len(whole)
