"""The frames of a client in line for the daemon, which may be another one before they are sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from mcpd.bridge.session.queue import Item, Queue


def line(**message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def items(*frames: bytes) -> list[Item]:
    return [Item([frame]) for frame in frames]


FRAMES = [line(id=n, method="m", params={"text": "x" * n}) for n in range(5)]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Choking:
    """A connection that takes so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken = b""

    def send(self, buffer, flags) -> int:
        return self.sendmsg([buffer], [], flags)

    def sendmsg(self, buffers, _ancillary, _flags) -> int:
        taken = b"".join(buffers)[: self.room - len(self.taken)]
        if not taken:
            raise BlockingIOError
        self.taken += taken
        return len(taken)


def filled(*frames: bytes) -> tuple[Queue, list[Item]]:
    sent: list[Item] = []
    queue = Queue(sent.append)
    queue.is_open = True
    for item in items(*frames):
        queue.put(item)
    return queue, sent


def test_frames_are_sent_whole_and_in_order(pair):
    queue, sent = filled(*FRAMES)
    queue.flush(pair[0])
    assert pair[1].recv(1 << 16) == b"".join(FRAMES)
    assert [item.chunks for item in sent] == [[frame] for frame in FRAMES]
    assert not queue
    assert queue.size == 0


@pytest.mark.parametrize("room", range(sum(map(len, FRAMES)) + 1))
def test_wherever_it_is_cut_a_frame_is_sent_or_kept_and_never_both(room):
    """
    One whose first byte the kernel has is on its way; of one that is kept nobody has seen anything.
    """
    queue, sent = filled(*FRAMES)
    connection = Choking(room)
    queue.flush(connection)  # type: ignore[arg-type]
    begun = [frame for at, frame in enumerate(FRAMES) if room > sum(map(len, FRAMES[:at]))]
    assert [b"".join(item.chunks) for item in sent] == begun
    queue.daemon_lost([])
    assert queue.size == sum(map(len, FRAMES[len(begun) :]))
    assert not queue, "there is nobody to send it to"
    queue.is_open = True
    after = Choking(1 << 20)
    queue.flush(after)  # type: ignore[arg-type]
    assert after.taken == b"".join(FRAMES[len(begun) :])
    assert len(sent) == len(FRAMES)


def test_our_own_frames_come_first_and_are_for_one_daemon():
    queue, sent = filled(*FRAMES[:1])
    queue.is_open = False
    queue.put_own(b"own\n")
    connection = Choking(3)
    queue.flush(connection)  # type: ignore[arg-type]
    assert connection.taken == b"own"
    queue.daemon_lost([])
    queue.put_own(b"own again\n")
    queue.is_open = True
    connection = Choking(1 << 20)
    queue.flush(connection)  # type: ignore[arg-type]
    assert connection.taken == b"own again\n" + FRAMES[0]
    assert len(sent) == 1
    assert queue.size == 0


def test_an_own_frame_never_comes_in_the_midst_of_another():
    queue, _ = filled(*FRAMES[:2])
    connection = Choking(10)
    queue.flush(connection)  # type: ignore[arg-type]
    queue.put_own(b"own\n")
    connection.room = 1 << 20
    queue.flush(connection)  # type: ignore[arg-type]
    assert connection.taken == FRAMES[0] + b"own\n" + FRAMES[1]


def test_what_was_sent_back_comes_before_what_was_read_later():
    queue, sent = filled(*FRAMES[:3])
    queue.flush(Choking(1 << 20))  # type: ignore[arg-type]
    for item in items(*FRAMES[3:]):
        queue.put(item)
    assert queue.hold(sent[2])
    assert queue.hold(sent[0])
    assert [ident for ident, _ in queue.requests()] == [b"2", b"0", b"3", b"4"]
    queue.daemon_lost([sent[1]])
    assert [item.chunks for item in queue] == [[frame] for frame in FRAMES]
    assert queue.size == sum(map(len, FRAMES))


def test_answers_are_not_for_another_daemon():
    queue, _ = filled(line(id=1, result={}), FRAMES[0], line(id="a", error={}), b"garbage\n")
    queue.daemon_lost([])
    assert [item.chunks[0] for item in queue] == [FRAMES[0], b"garbage\n"]


def test_a_request_in_a_batch_is_not_withdrawn():
    batch = json.dumps([{"id": 1, "method": "a"}, {"id": 2, "method": "b"}]).encode() + b"\n"
    queue, _ = filled(batch, FRAMES[3])
    assert not queue.withdraw(b"1", is_up=False)
    assert queue.withdraw(b"3", is_up=False)
    assert queue.size == len(batch)
