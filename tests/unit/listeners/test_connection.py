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


class Reports:
    """What a connection reported."""

    def __init__(self) -> None:
        self.frames: list[bytes | Oversized] = []
        self.ends: list[str] = []

    def frame(self, _session: SessionId, frame: bytes | Oversized) -> None:
        self.frames.append(frame)

    def closed(self, _session: SessionId, reason: str) -> None:
        self.ends.append(reason)


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def outboxes() -> Outboxes:
    return Outboxes(one_bytes=1000, memory=Memory(1500))


def connection(reports: Reports, outboxes: Outboxes, session: int = 1) -> Connection:
    return Connection(
        SessionId(session),
        max_frame_bytes=50,
        outboxes=outboxes,
        on_frame=reports.frame,
        on_closed=reports.closed,
    )


async def test_lines_come_whole_however_they_are_cut(reports: Reports, outboxes: Outboxes) -> None:
    made = connection(reports, outboxes)
    FakeTransport(made)
    for byte in b'{"a":1}\n{"b":2}\n':
        made.data_received(bytes([byte]))
    assert reports.frames == [b'{"a":1}', b'{"b":2}']


async def test_a_line_over_the_limit_is_reported_as_oversized(
    reports: Reports, outboxes: Outboxes
) -> None:
    made = connection(reports, outboxes)
    FakeTransport(made)
    made.data_received(b"x" * 80 + b"\nfine\n")
    assert isinstance(reports.frames[0], Oversized)
    assert reports.frames[1] == b"fine"


async def test_the_elements_of_an_array_come_before_what_follows_it_and_not_at_once(
    reports: Reports, outboxes: Outboxes
) -> None:
    """
    A thousand of them in one go would keep everybody else waiting.
    """
    made = connection(reports, outboxes)
    transport = FakeTransport(made)

    def frame(session: SessionId, frame: bytes | Oversized) -> None:
        reports.frame(session, frame)
        if frame == b"[1,2]":
            made.bring([b"1", b"2"])

    made._on_frame = frame
    made.data_received(b"[1,2]\n3\n4\n")
    assert reports.frames == [b"[1,2]"] and transport.is_paused
    made.data_received(b"5\n" * 40)
    await wait_until_async(lambda: not transport.is_paused)
    assert reports.frames == [b"[1,2]", b"1", b"2", b"3", b"4", *[b"5"] * 40]
    made.data_received(b"6\n[1,2]\n" * 40)
    await wait_until_async(lambda: not transport.is_paused and len(reports.frames) > 160)
    assert reports.frames[45:] == [b"6", b"[1,2]", b"1", b"2"] * 40


async def test_the_elements_of_a_closed_connection_are_dropped(
    reports: Reports, outboxes: Outboxes
) -> None:
    made = connection(reports, outboxes)
    FakeTransport(made)
    made.bring([b"1", b"2"])
    made.connection_lost(None)
    await asyncio.sleep(0)
    assert reports.frames == []


async def test_the_end_of_input_ends_the_session_and_delivers_what_is_queued(
    reports: Reports, outboxes: Outboxes
) -> None:
    made = connection(reports, outboxes)
    transport = FakeTransport(made)
    made.write(b"answer\n")
    assert made.eof_received() is False
    assert reports.ends == [HUNG_UP]
    assert not transport.aborted
    assert transport.written == b"answer\n"
    made.connection_lost(None)
    assert reports.ends == [HUNG_UP], "told once"


async def test_a_broken_connection_is_closed_with_the_reason(
    reports: Reports, outboxes: Outboxes
) -> None:
    made = connection(reports, outboxes)
    FakeTransport(made)
    made.connection_lost(ConnectionResetError("reset"))
    assert reports.ends == ["the connection broke: reset"]


async def test_nothing_is_written_after_the_end(reports: Reports, outboxes: Outboxes) -> None:
    """
    uvloop raises for it, in whoever's turn it is: a leaving client would take a server's pipe.
    """
    made = connection(reports, outboxes)
    transport = FakeTransport(made)
    made.close("told to")
    made.write(b"late\n")
    assert transport.written == b""


async def test_frames_after_the_end_of_the_session_are_dropped(
    reports: Reports, outboxes: Outboxes
) -> None:
    made = connection(reports, outboxes)
    FakeTransport(made)

    def end(_session: SessionId, frame: bytes | Oversized) -> None:
        reports.frames.append(frame)
        made.close("enough")

    made._on_frame = end
    made.data_received(b"one\ntwo\nthree\n")
    assert reports.frames == [b"one"]


async def test_a_slow_client_loses_notifications_first(
    reports: Reports, outboxes: Outboxes
) -> None:
    """
    B089: half of the bound is for answers alone.
    """
    made = connection(reports, outboxes)
    transport = FakeTransport(made)
    made.write(b"a" * 450)
    made.write(b"n" * 100, is_notification=True)
    assert b"n" not in transport.written
    made.write(b"b" * 100)
    assert transport.written.endswith(b"b" * 100)
    assert reports.ends == []


async def test_a_connection_over_its_bound_is_closed_with_a_reason(
    reports: Reports, outboxes: Outboxes
) -> None:
    """
    B089.
    """
    made = connection(reports, outboxes)
    transport = FakeTransport(made)
    made.write(b"a" * 900)
    made.write(b"b" * 200)
    assert transport.aborted
    assert "does not read" in reports.ends[0]
    assert "max_outbox_bytes" in reports.ends[0]


async def test_a_client_that_reads_again_gets_notifications_again(
    reports: Reports, outboxes: Outboxes
) -> None:
    made = connection(reports, outboxes)
    transport = FakeTransport(made)
    made.write(b"a" * 600)
    transport.take_all()
    made.write(b"n" * 10, is_notification=True)
    assert transport.written.endswith(b"n" * 10)


async def test_the_largest_of_all_outboxes_is_closed_first(
    reports: Reports, outboxes: Outboxes
) -> None:
    small, large = connection(reports, outboxes, 1), connection(reports, outboxes, 2)
    first, second = FakeTransport(small), FakeTransport(large)
    small.write(b"a" * 600)
    large.write(b"b" * 800)
    small.write(b"c" * 150)
    assert second.aborted
    assert not first.aborted
    assert "max_buffered_bytes" in reports.ends[0]


async def test_waiting_for_a_closed_connection_returns_at_once(
    reports: Reports, outboxes: Outboxes
) -> None:
    made = connection(reports, outboxes)
    FakeTransport(made)
    made.connection_lost(None)
    await asyncio.wait_for(made.wait_gone(10), 1)


def long_lines(reports: Reports, outboxes: Outboxes, session: int) -> Connection:
    return Connection(
        SessionId(session),
        max_frame_bytes=1 << 20,
        outboxes=outboxes,
        on_frame=reports.frame,
        on_closed=reports.closed,
    )


async def test_lines_that_are_never_finished_count_with_the_outboxes(reports: Reports) -> None:
    """
    A thousand clients could have 9 GiB kept of theirs.
    """
    outboxes = Outboxes(one_bytes=1 << 30, memory=Memory(500_000))
    transports = []
    for session, size in ((1, 100_000), (2, 300_000), (3, 150_000)):
        made = long_lines(reports, outboxes, session)
        transports.append(FakeTransport(made))
        made.data_received(b"x" * size)
    assert [each.aborted for each in transports] == [False, True, False]
    assert "max_buffered_bytes" in reports.ends[0]


async def test_a_long_line_is_not_counted_after_its_end(reports: Reports) -> None:
    outboxes = Outboxes(one_bytes=1 << 30, memory=Memory(500_000))
    made = long_lines(reports, outboxes, 1)
    transport = FakeTransport(made)
    for _ in range(5):
        made.data_received(b"x" * 300_000)
        await asyncio.sleep(0)  # others have a turn, and then it is read again
        made.data_received(b"\n")
    assert len(reports.frames) == 5
    assert not transport.aborted
    other = long_lines(reports, outboxes, 2)
    other_transport = FakeTransport(other)
    other.data_received(b"y" * 400_000)
    assert not other_transport.aborted


async def test_nothing_is_kept_for_a_closed_connection(reports: Reports) -> None:
    """
    The collector comes when there are many objects, and a line of megabytes is one.
    """
    made = long_lines(reports, Outboxes(one_bytes=1 << 30, memory=Memory(1 << 30)), 1)
    FakeTransport(made)
    made.data_received(b"x" * 300_000)
    made.connection_lost(None)
    assert made._framer.buffered_bytes() == 0


async def test_an_unfinished_line_is_counted_beside_answers_that_are_read(reports: Reports) -> None:
    memory = Memory(1 << 30)
    made = long_lines(reports, Outboxes(one_bytes=1 << 30, memory=memory), 1)
    transport = FakeTransport(made)
    made.data_received(b"x" * 300_000)
    await asyncio.sleep(0)
    made.pause_writing()
    made.resume_writing()
    assert memory.kept_bytes >= 300_000
    assert not transport.aborted
