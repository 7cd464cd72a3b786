"""A client's connection: bounded writing, frames in, one end."""

from __future__ import annotations

import asyncio

import pytest

from mcpd.core.wire.framing import Oversized
from mcpd.core.wire.memory import Memory
from mcpd.ids import SessionId
from mcpd.listeners.connection import HUNG_UP, Connection, Outboxes
from tests.support.waiting import wait_until_async


class FakeTransport(asyncio.Transport):
    """Keeps what is written until it is taken, and calls the protocol as a loop does."""

    def __init__(self, protocol: Connection, high: int = 100) -> None:
        super().__init__()
        self.protocol = protocol
        self.high = high
        self.kept = bytearray()
        self.written = bytearray()
        self.closing = False
        self.is_paused = False
        self.aborted = False
        protocol.connection_made(self)

    def write(self, data: bytes) -> None:
        assert not self.closing, "uvloop raises here"
        self.written += data
        self.kept += data
        if len(self.kept) > self.high:
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.closing = self.aborted = True
        self.kept.clear()

    def take_all(self) -> None:
        """Let the client read everything."""
        self.kept.clear()
        self.protocol.resume_writing()


class Heard:
    """What a connection reported."""

    def __init__(self) -> None:
        self.frames: list[bytes | Oversized] = []
        self.ends: list[str] = []

    def frame(self, _session: SessionId, frame: bytes | Oversized) -> None:
        self.frames.append(frame)

    def closed(self, _session: SessionId, reason: str) -> None:
        self.ends.append(reason)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def outboxes() -> Outboxes:
    return Outboxes(one_bytes=1000, memory=Memory(1500))


def connection(heard: Heard, outboxes: Outboxes, session: int = 1) -> Connection:
    return Connection(
        SessionId(session),
        max_frame_bytes=50,
        outboxes=outboxes,
        on_frame=heard.frame,
        on_closed=heard.closed,
    )


async def test_lines_come_whole_however_they_are_cut(heard: Heard, outboxes: Outboxes) -> None:
    made = connection(heard, outboxes)
    FakeTransport(made)
    for byte in b'{"a":1}\n{"b":2}\n':
        made.data_received(bytes([byte]))
    assert heard.frames == [b'{"a":1}', b'{"b":2}']


async def test_a_line_over_the_limit_is_one_frame_that_was_not_kept(
    heard: Heard, outboxes: Outboxes
) -> None:
    made = connection(heard, outboxes)
    FakeTransport(made)
    made.data_received(b"x" * 80 + b"\nfine\n")
    assert isinstance(heard.frames[0], Oversized)
    assert heard.frames[1] == b"fine"


async def test_the_elements_of_an_array_come_before_what_follows_it_and_not_at_once(
    heard: Heard, outboxes: Outboxes
) -> None:
    """
    A thousand of them in one go would keep everybody else waiting.
    """
    made = connection(heard, outboxes)
    transport = FakeTransport(made)

    def frame(session: SessionId, frame: bytes | Oversized) -> None:
        heard.frame(session, frame)
        if frame == b"[1,2]":
            made.bring([b"1", b"2"])

    made._on_frame = frame
    made.data_received(b"[1,2]\n3\n4\n")
    assert heard.frames == [b"[1,2]"] and transport.is_paused
    made.data_received(b"5\n" * 40)
    await wait_until_async(lambda: not transport.is_paused)
    assert heard.frames == [b"[1,2]", b"1", b"2", b"3", b"4", *[b"5"] * 40]
    made.data_received(b"6\n[1,2]\n" * 40)
    await wait_until_async(lambda: not transport.is_paused and len(heard.frames) > 160)
    assert heard.frames[45:] == [b"6", b"[1,2]", b"1", b"2"] * 40


async def test_of_a_client_that_is_gone_no_element_is_heard(
    heard: Heard, outboxes: Outboxes
) -> None:
    made = connection(heard, outboxes)
    FakeTransport(made)
    made.bring([b"1", b"2"])
    made.connection_lost(None)
    await asyncio.sleep(0)
    assert heard.frames == []


async def test_the_end_of_input_ends_the_session_and_delivers_what_is_queued(
    heard: Heard, outboxes: Outboxes
) -> None:
    made = connection(heard, outboxes)
    transport = FakeTransport(made)
    made.write(b"answer\n")
    assert made.eof_received() is False
    assert heard.ends == [HUNG_UP]
    assert not transport.aborted
    assert transport.written == b"answer\n"
    made.connection_lost(None)
    assert heard.ends == [HUNG_UP], "told once"


async def test_a_broken_connection_says_how(heard: Heard, outboxes: Outboxes) -> None:
    made = connection(heard, outboxes)
    FakeTransport(made)
    made.connection_lost(ConnectionResetError("reset"))
    assert heard.ends == ["the connection broke: reset"]


async def test_nothing_is_written_after_the_end(heard: Heard, outboxes: Outboxes) -> None:
    """
    uvloop raises for it, in whoever's turn it is: a leaving client would take a server's pipe.
    """
    made = connection(heard, outboxes)
    transport = FakeTransport(made)
    made.close("told to")
    made.write(b"late\n")
    assert transport.written == b""


async def test_frames_after_the_end_are_nobodys(heard: Heard, outboxes: Outboxes) -> None:
    made = connection(heard, outboxes)
    FakeTransport(made)

    def end(_session: SessionId, frame: bytes | Oversized) -> None:
        heard.frames.append(frame)
        made.close("enough")

    made._on_frame = end
    made.data_received(b"one\ntwo\nthree\n")
    assert heard.frames == [b"one"]


async def test_a_slow_client_loses_notifications_first(heard: Heard, outboxes: Outboxes) -> None:
    """
    B089: half of the bound is for answers alone.
    """
    made = connection(heard, outboxes)
    transport = FakeTransport(made)
    made.write(b"a" * 450)
    made.write(b"n" * 100, is_notification=True)
    assert b"n" not in transport.written
    made.write(b"b" * 100)
    assert transport.written.endswith(b"b" * 100)
    assert heard.ends == []


async def test_over_the_bound_the_connection_goes_with_a_reason(
    heard: Heard, outboxes: Outboxes
) -> None:
    """
    B089.
    """
    made = connection(heard, outboxes)
    transport = FakeTransport(made)
    made.write(b"a" * 900)
    made.write(b"b" * 200)
    assert transport.aborted
    assert "does not read" in heard.ends[0]
    assert "max_outbox_bytes" in heard.ends[0]


async def test_a_client_that_reads_again_gets_notifications_again(
    heard: Heard, outboxes: Outboxes
) -> None:
    made = connection(heard, outboxes)
    transport = FakeTransport(made)
    made.write(b"a" * 600)
    transport.take_all()
    made.write(b"n" * 10, is_notification=True)
    assert transport.written.endswith(b"n" * 10)


async def test_of_all_outboxes_together_the_largest_goes(heard: Heard, outboxes: Outboxes) -> None:
    small, large = connection(heard, outboxes, 1), connection(heard, outboxes, 2)
    first, second = FakeTransport(small), FakeTransport(large)
    small.write(b"a" * 600)
    large.write(b"b" * 800)
    small.write(b"c" * 150)
    assert second.aborted
    assert not first.aborted
    assert "max_buffered_bytes" in heard.ends[0]


async def test_waiting_for_the_end_of_one_that_is_gone_takes_no_time(
    heard: Heard, outboxes: Outboxes
) -> None:
    made = connection(heard, outboxes)
    FakeTransport(made)
    made.connection_lost(None)
    await asyncio.wait_for(made.wait_gone(10), 1)


def long_lines(heard: Heard, outboxes: Outboxes, session: int) -> Connection:
    return Connection(
        SessionId(session),
        max_frame_bytes=1 << 20,
        outboxes=outboxes,
        on_frame=heard.frame,
        on_closed=heard.closed,
    )


async def test_lines_that_are_never_finished_count_with_the_outboxes(heard: Heard) -> None:
    """
    A thousand clients could have 9 GiB kept of theirs.
    """
    outboxes = Outboxes(one_bytes=1 << 30, memory=Memory(500_000))
    transports = []
    for session, size in ((1, 100_000), (2, 300_000), (3, 150_000)):
        made = long_lines(heard, outboxes, session)
        transports.append(FakeTransport(made))
        made.data_received(b"x" * size)
    assert [each.aborted for each in transports] == [False, True, False]
    assert "max_buffered_bytes" in heard.ends[0]


async def test_a_long_line_that_is_finished_counts_no_more(heard: Heard) -> None:
    outboxes = Outboxes(one_bytes=1 << 30, memory=Memory(500_000))
    made = long_lines(heard, outboxes, 1)
    transport = FakeTransport(made)
    for _ in range(5):
        made.data_received(b"x" * 300_000)
        made.data_received(b"\n")
    assert len(heard.frames) == 5
    assert not transport.aborted
    other = long_lines(heard, outboxes, 2)
    other_transport = FakeTransport(other)
    other.data_received(b"y" * 400_000)
    assert not other_transport.aborted


async def test_of_who_is_gone_nothing_is_kept(heard: Heard) -> None:
    """
    The collector comes when there are many objects, and a line of megabytes is one.
    """
    made = long_lines(heard, Outboxes(one_bytes=1 << 30, memory=Memory(1 << 30)), 1)
    FakeTransport(made)
    made.data_received(b"x" * 300_000)
    made.connection_lost(None)
    assert made._framer.kept() == 0
