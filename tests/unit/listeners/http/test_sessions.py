"""Sessions over HTTP: which stream a message goes to, and what is held of the streams."""

from __future__ import annotations

import json

from mcpd.core.interface.commands import SessionState
from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.sessions import HttpSession
from mcpd.listeners.http.streams import Outbox, parse_event_id

OLD, LIFE = "00000000", "0123abcd"


def make(most=10**6):
    memory = Memory(most)
    session = HttpSession(
        "d",
        "laptop",
        None,
        Share(memory),
        life=LIFE,
        replay_events=256,
        now=lambda: 0.0,
        changed=lambda _: None,
    )
    session.state = SessionState(version="2025-11-25")
    return session, memory


def begun(session, *keys, ident=None):
    outbox = Outbox(10**6, session.share)
    return session.begin(keys, outbox, ident), outbox


def held(stream):
    outbox = Outbox(10**9, Share(Memory(10**9)))
    stream.attach(outbox, 1)
    found = []
    while outbox._queue:
        found.append(outbox._queue.popleft().line)
    return found


def test_a_response_takes_the_room_of_older_ones_of_its_session():
    session, memory = make()
    streams = []
    for number in range(40):
        stream, outbox = begun(session, b"%d" % number, ident=b"%d" % number)
        session.deliver(b"r" * 50_000, b"%d" % number, is_response=True)
        outbox.drop()
        streams.append(stream)
    assert memory.kept_bytes <= memory.most_bytes / 2
    assert session.resumed(parse_event_id(streams[0].event_id(1))) is None
    assert session.resumed(parse_event_id(streams[-1].event_id(1))) is streams[-1]
    session.closed("")
    assert memory.kept_bytes == 0


def test_a_response_for_which_there_is_no_room_and_nobody_is_held_as_an_error():
    session, memory = make()
    others = Share(memory)
    others.add(900_000)
    stream, outbox = begun(session, b"1", ident=b"1")
    stream.detach(outbox)
    session.deliver(b"r" * 300_000, b"1", is_response=True)
    [line] = held(stream)
    assert json.loads(line)["error"]["data"]["kind"] == "server_busy"


def test_a_response_after_its_client_has_left_is_counted_nowhere():
    session, memory = make()
    stream, outbox = begun(session, b"1")
    outbox.drop()
    stream.detach(outbox)
    session.forget(stream)  # it was given no event id
    session.deliver(b"p" * 1000, b"1", is_response=False)
    session.deliver(b"r" * 1000, b"1", is_response=True)
    assert memory.kept_bytes == 0
    stream, outbox = begun(session, b"2")
    outbox.drop()
    session.forget(stream)
    session.deliver(b"p" * 1000, b"2", is_response=False)
    session.closed("")
    assert memory.kept_bytes == 0


def test_of_a_batch_all_must_be_cancelled_before_its_stream_ends():
    session, _ = make()
    stream, outbox = begun(session, b"1", b"2")
    session.give_up((b"1",))
    assert not outbox.is_closed
    session.deliver(b"[]", b"1", is_response=True)
    assert held(stream) == [b"[]"]
    _, outbox = begun(session, b"1", b"2")
    session.give_up((b"1", b"2"))
    assert outbox.is_closed
    assert not session.has_request(b"1")


def test_streams_of_an_earlier_daemon_are_made_up_and_not_held():
    session, memory = make()
    assert session.resumed(parse_event_id(f"{OLD}.3.2.MQ")) is None, "there was no earlier one"
    session.is_restored = True
    lost = session.resumed(parse_event_id(f"{OLD}.3.2.MQ"))
    [line] = held(lost)
    assert json.loads(line)["id"] == 1
    assert json.loads(line)["error"]["data"]["kind"] == "outcome_unknown"
    session.let_go(lost)
    assert memory.kept_bytes == 0
    assert session.resumed(parse_event_id(f"{OLD}.0.2")) is session.unasked
    assert session.resumed(parse_event_id(f"{OLD}.3.2")) is None
