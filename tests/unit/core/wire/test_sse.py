"""What is kept of an event stream, and what is not."""

from __future__ import annotations

import pytest

from mcpd.core.wire.framing import Oversized
from mcpd.core.wire.sse import SseParser


def test_a_large_event_comes_whole() -> None:
    parser = SseParser(1 << 20)
    whole = b"x" * (1 << 20)
    stream = b"data: " + whole + b"\n\n"
    events = [
        event
        for at in range(0, len(stream), 65536)
        for event in parser.feed(stream[at : at + 65536])
    ]
    assert [bytes(event.data) for event in events] == [whole]  # type: ignore[arg-type]


def test_of_an_event_over_the_limit_both_ends_are_kept() -> None:
    parser = SseParser(10_000)
    stream = b'data: {"id":1' + b"x" * 100_000 + b"}\n\ndata: next\n\n"
    first, second = parser.feed(stream)
    assert isinstance(first.data, Oversized)
    assert first.data.head.startswith(b'{"id":1x') and first.data.tail.endswith(b"x}")
    assert first.data.size_bytes == 100_008 and second.data == b"next"


@pytest.mark.parametrize("begin", [b"data: ", b": ", b"id: ", b"nonsense"])
def test_a_line_without_an_end_takes_no_memory(begin: bytes) -> None:
    parser = SseParser(10_000)
    parser.feed(begin)
    for _ in range(100):
        assert parser.feed(b"y" * 65536) == []
    head, size = parser.unfinished()
    assert len(head) <= 4096 and size > 100 * 65536
    assert len(parser._line._buffer) <= 10_006 and parser.last_id == ""


def test_many_short_lines_are_scanned_once() -> None:
    """Looking for a carriage return that never comes must not read the rest of the chunk each time."""

    class Counting(bytes):
        finds = 0

        def find(self, *args: object) -> int:  # type: ignore[override]
            Counting.finds += 1
            return super().find(*args)  # type: ignore[arg-type]

    SseParser(1 << 20).feed(Counting(b"data: x\n\n" * 10_000))
    assert Counting.finds <= 20_002


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_the_event_that_the_end_cuts_off_is_there_for_who_wants_it(end: bytes) -> None:
    parser = SseParser(100)
    assert parser.feed(b"id: 3\ndata: last" + end) == []
    assert [event.data for event in parser.end()] == [b"last"] and parser.end() == []


def test_an_id_counts_once_its_event_is_complete() -> None:
    parser = SseParser(100)
    parser.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b")
    assert parser.last_id == "1"
    parser.feed(b"\n\n")
    assert parser.last_id == "2"
    parser.feed(b"id\ndata: c\n\n")
    assert parser.last_id == ""


def test_a_priming_event_has_an_id_and_no_data() -> None:
    parser = SseParser(100)
    assert parser.feed(b"id: s:0\nretry: 300\ndata:\n\n") == []
    assert parser.last_id == "s:0" and parser.retry_ms == 300
