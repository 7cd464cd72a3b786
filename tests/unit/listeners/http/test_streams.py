"""Streams that a client can resume, and what one connection is sent."""

from __future__ import annotations

from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.exchange import PIECE_BYTES
from mcpd.listeners.http.streams import Event, Outbox, Outboxes, Stream, parse_event_id

LIFE = "0123abcd"


def make(most=256, ident=None, memory=None):
    memory = memory or Memory(10**9)
    return Stream(3, most, Share(memory), LIFE, ident), memory


def outbox(most=10**6):
    return Outbox(most, Share(Memory(10**9)))


async def drained(box):
    box.close()
    found = []
    while (queued := await box.get()) is not None:
        found.append(queued)
    return found


def lines(found):
    return [each.line for each in found if isinstance(each, Event)]


async def test_what_comes_without_a_connection_is_sent_to_the_next():
    stream, _ = make()
    stream.add(b"1\n")
    first = outbox()
    stream.attach(first)
    stream.add(b"2\n")
    assert lines(await drained(first)) == [b"1\n", b"2\n"]
    stream.detach(first)
    stream.add(b"3\n")
    second = outbox()
    stream.attach(second)
    assert lines(await drained(second)) == [b"3\n"], "nothing is repeated without an event id"


async def test_a_connection_continues_after_the_event_that_was_seen():
    stream, _ = make()
    first = outbox()
    stream.attach(first)
    for n in range(5):
        stream.add(b"%d\n" % n)
    seen = (await drained(first))[1]
    found = parse_event_id(seen.ident)
    assert stream.can_resume_after(found.number)
    second = outbox()
    stream.attach(second, found.number)
    stream.add(b"5\n")
    assert lines(await drained(second)) == [b"2\n", b"3\n", b"4\n", b"5\n"]


async def test_the_priming_event_can_be_resumed_after_though_events_came_before_it_was_sent():
    stream, _ = make()
    first = outbox()
    stream.attach(first)
    stream.add(b"1\n")
    primed = stream.prime()
    ident = primed.split(b"\n")[0].removeprefix(b"id: ").decode()
    second = outbox()
    stream.attach(second, parse_event_id(ident).number)
    assert lines(await drained(second)) == [b"1\n"]


async def test_a_second_connection_replaces_the_first_and_tells_it_when_to_come_back():
    stream, _ = make()
    first, second = outbox(), outbox()
    stream.attach(first)
    stream.attach(second)
    stream.add(b"1\n")
    assert await drained(first) == [b"retry: 1000\n\n"]
    assert lines(await drained(second)) == [b"1\n"]


def test_old_events_make_room_and_the_response_stays():
    stream, memory = make(most=2)
    stream.add(b"answer\n", is_response=True)
    for n in range(9):
        stream.add(b"%d\n" % n)
    assert not stream.can_resume_after(1)
    assert stream.can_resume_after(9)
    assert memory.kept_bytes == len(b"answer\n") + 2 * 2
    stream.forget()
    assert memory.kept_bytes == 0


async def test_a_connection_that_does_not_read_is_closed_and_the_stream_goes_on():
    stream, _ = make()
    slow = outbox(most=10)
    stream.attach(slow)
    for n in range(9):
        stream.add(b"%d....\n" % n)
    assert slow.is_closed
    assert await slow.get() is None
    again = outbox()
    stream.attach(again, 1)
    assert len(lines(await drained(again))) == 9


async def test_one_message_is_sent_however_long_it_is():
    """
    A bound that a single answer exceeds would make that answer impossible.
    """
    box = outbox(most=10)
    assert box.put(Event(1, None, b"x" * 100, True))
    assert not box.put(b"y")


def test_what_is_queued_counts_until_it_is_taken():
    memory = Memory(10**9)
    box = Outbox(10**6, Share(memory))
    box.put(b"12345")
    assert memory.kept_bytes == 5
    box.drop()
    assert memory.kept_bytes == 0


def test_event_ids_are_read_back():
    stream, _ = make(ident=b'"q"')
    found = parse_event_id(stream.event_id(7))
    assert found == (LIFE, 3, 7, b'"q"')
    plain, _ = make()
    assert parse_event_id(plain.event_id(7)) == (LIFE, 3, 7, None)
    for text in (
        "",
        "7",
        "3-7",
        "never-given",
        "A" * 60,
        f"{LIFE}.3",
        f"{LIFE}.3.x",
        f"{LIFE}.3.1.!!",
        f"{LIFE}.3.1.bnVsbA",
    ):
        assert parse_event_id(text) is None, text


def test_an_event_is_one_line_of_data():
    event = Event(1, "a", (b'{"x":\r', b"1}\n"), False)
    assert b"".join(event.written()) == b'id: a\nevent: message\ndata: {"x": 1}\n\n'


def test_a_large_event_is_never_copied_whole():
    line = (b'{"x":"', b"a" * 300_000, b'"\r}\n')
    pieces = list(Event(1, "a", line, True).written())
    assert max(map(len, pieces)) <= PIECE_BYTES
    data = b"".join(line).replace(b"\r", b" ")
    assert b"".join(pieces) == b"id: a\nevent: message\ndata: " + data + b"\n"


async def test_what_is_being_sent_counts_until_it_is_sent():
    share = Share(Memory(1000))
    box = Outbox(1000, share)
    box.put(b"x" * 100)
    assert await box.get() == b"x" * 100
    assert share.kept_bytes == 100
    box.sent()
    assert share.kept_bytes == 0


async def test_while_the_memory_is_over_its_bound_the_largest_outbox_is_cut():
    memory = Memory(1000)
    boxes, cut = Outboxes(memory), []
    with (
        boxes.opened(10**6, lambda: cut.append("small")) as small,
        boxes.opened(10**6, lambda: cut.append("large")) as large,
        boxes.opened(10**6, lambda: cut.append("last")) as last,
    ):
        small.put(b"x" * 100)
        large.put(b"x" * 800)
        assert await large.get() == b"x" * 800
        last.put(b"x" * 500)
        assert cut == ["large"]
        assert large.is_finished
        assert memory.kept_bytes == 600
    assert memory.kept_bytes == 0


def test_a_stream_that_sheds_what_it_holds_goes_on_and_cannot_be_resumed_before_it():
    stream, memory = make()
    for _ in range(3):
        stream.add(b"x" * 10)
    stream.shed()
    assert memory.kept_bytes == stream.held_bytes == 0
    stream.add(b"next")
    assert not stream.can_resume_after(3)
    assert stream.can_resume_after(4)


async def test_where_memory_is_short_events_give_way_and_a_response_does_not():
    memory = Memory(1000)
    stream, _ = make(memory=memory)
    stream.add(b"r" * 400 + b"\n", is_response=True)
    stream.add(b"x" * 300 + b"\n")
    sent = outbox()
    stream.attach(sent)
    assert [len(line) for line in lines(await drained(sent))] == [401]
    assert memory.kept_bytes == 401
