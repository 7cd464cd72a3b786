"""Sessions and their streams: where each message goes, and what can be resumed."""

from __future__ import annotations

import json

import pytest

from mcpd.core.interface.commands import SessionState
from mcpd.core.wire.memory import Memory, Share
from mcpd.listeners.http.sessions import RETENTION_S, HttpSession, Sessions, digest_of, new_id
from mcpd.listeners.http.streams import Event, Outbox, parse_event_id
from tests.support.asgi import ADA, BOB

LIFE = "0123abcd"
OLDER = "89abcdef"
STATE = SessionState(version="2025-11-25")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0


def make(memory: Memory | None = None, digest: str = "d", token: str | None = "ada", most=256):
    clock = Clock()
    saved: list[SessionState | None] = []
    session = HttpSession(
        digest,
        token,
        "one",
        Share(memory or Memory(10**9)),
        life=LIFE,
        replay_events=most,
        now=lambda: clock.now,
        changed=lambda each: saved.append(each.state),
    )
    session.state = STATE
    return session, clock, saved


def outbox(session: HttpSession) -> Outbox:
    return Outbox(10**6, session.share)


async def lines(box: Outbox) -> list[bytes]:
    box.close()
    found = []
    while (queued := await box.get()) is not None:
        found.append(queued)
    return [each.line for each in found if isinstance(each, Event)]


def resumed(session: HttpSession, text: str):
    found = parse_event_id(text)
    assert found is not None
    return session.resumed(found)


async def test_each_message_goes_to_the_stream_that_it_belongs_to():
    session, _, _ = make()
    first, second, unasked = outbox(session), outbox(session), outbox(session)
    session.unasked.attach(unasked)
    session.begin([b"1"], first)
    session.begin([b'"1"'], second)
    session.deliver(b"a\n", b"1", is_response=False)
    session.deliver(b"b\n", b'"1"', is_response=False)
    session.deliver(b"c\n", None, is_response=False)
    session.deliver(b"d\n", b"1", is_response=True)
    assert await lines(first) == [b"a\n", b"d\n"]
    assert await lines(second) == [b"b\n"]
    assert await lines(unasked) == [b"c\n"]


async def test_a_response_to_nobody_is_dropped():
    session, _, _ = make()
    unasked = outbox(session)
    session.unasked.attach(unasked)
    session.deliver(b"a\n", b"1", is_response=True)
    session.deliver(b"b\n", None, is_response=True)
    assert await lines(unasked) == []


def test_an_id_is_in_flight_until_its_response_comes_or_it_is_cancelled():
    session, clock, _ = make()
    session.begin([b"1"], outbox(session))
    session.begin([b"2"], outbox(session))
    assert session.has_request(b"1") and session.is_in_use
    clock.now = 9.0
    session.deliver(b"a\n", b"1", is_response=True)
    assert not session.has_request(b"1")
    assert session.used_at == 9.0
    session.give_up([b"2", b"never"])
    assert not session.has_request(b"2") and not session.is_in_use


async def test_a_cancelled_request_of_a_batch_takes_no_other_with_it():
    """
    The answers to the others are one array, which names one of its requests, perhaps that one.
    """
    session, _, _ = make()
    box = outbox(session)
    session.begin([b"1", b"2", b"2"], box)
    session.give_up([b"1"])
    session.give_up([b"1"])
    assert session.has_request(b"2")
    session.deliver(b"[2]\n", b"1", is_response=True)
    assert not session.has_request(b"1") and not session.has_request(b"2")
    assert await lines(box) == [b"[2]\n"]


def test_a_batch_whose_requests_are_all_cancelled_is_over():
    session, _, _ = make()
    box = outbox(session)
    session.begin([b"1", b"2"], box)
    session.give_up([b"1", b"2"])
    assert box.is_finished and not session.is_in_use


def test_a_stream_is_held_for_a_while_after_its_end():
    session, clock, _ = make()
    stream = session.begin([b"1"], outbox(session))
    session.deliver(b"a\n", b"1", is_response=True)
    clock.now = RETENTION_S - 1
    session.prune()
    assert resumed(session, f"{LIFE}.1.1") is stream
    clock.now = RETENTION_S
    session.prune()
    assert resumed(session, f"{LIFE}.1.1") is None
    assert session.unasked is resumed(session, f"{LIFE}.0.1")


def test_events_of_no_stream_of_ours_are_not_resumed():
    session, _, _ = make()
    session.begin([b"1"], outbox(session))
    for text in (f"{LIFE}.2.1", f"{LIFE}.1.2", f"{LIFE}.1.0", f"{OLDER}.0.1", f"{OLDER}.1.1.MQ"):
        assert resumed(session, text) is None


def test_what_was_in_flight_in_an_earlier_daemon_is_unknown():
    session, _, _ = make()
    session.is_restored = True
    lost = resumed(session, f"{OLDER}.7.3.MQ")
    assert lost is not None and lost.ended_at is not None
    box = outbox(session)
    lost.attach(box)
    queued = box._queue[0]
    assert isinstance(queued, Event)
    message = json.loads(queued.line)
    assert message["id"] == 1
    assert message["error"]["data"]["outcome_unknown"] is True


def test_asking_for_it_again_and_again_keeps_nothing():
    memory = Memory(10**9)
    session, _, _ = make(memory)
    session.is_restored = True
    for _ in range(100):
        assert resumed(session, f"{OLDER}.7.3.MQ") is not None
    assert memory.kept_bytes == 0
    assert len(session._streams) == 1


def test_what_belonged_to_none_in_an_earlier_daemon_begins_again():
    session, _, _ = make()
    session.is_restored = True
    assert resumed(session, f"{OLDER}.0.9") is session.unasked
    assert resumed(session, f"{OLDER}.3.9") is None, "a batch is not told from its event id"


def test_what_a_session_holds_is_given_back_at_its_end():
    memory = Memory(10**9)
    session, _, _ = make(memory)
    session.begin([b"1"], outbox(session))
    session.deliver(b"a" * 100, b"1", is_response=False)
    session.deliver(b"a" * 100, None, is_response=False)
    session.unasked.attach(Outbox(10**6, Share(Memory(10**9))))
    assert memory.kept_bytes
    for stream in (1, 0):
        box = session._streams[stream].outbox
        assert box is not None
        box.drop()
    session.closed("over")
    assert memory.kept_bytes == 0
    assert not session.is_in_use


@pytest.mark.parametrize("forgotten_first", [True, False])
def test_a_stream_that_nobody_can_resume_holds_nothing(forgotten_first):
    """
    Its client has hung up before it had an event id, and the response comes later.
    """
    memory = Memory(10**9)
    session, _, _ = make(memory)
    box = outbox(session)
    stream = session.begin([b"1"], box)
    box.drop()
    stream.detach(box)
    if forgotten_first:
        session.forget(stream)
    session.deliver(b"a" * 100, b"1", is_response=True)
    if not forgotten_first:
        session.forget(stream)
    assert memory.kept_bytes == 0
    assert not session.is_in_use


def test_responses_that_no_client_asks_for_again_make_room():
    """
    They are held for five minutes, unless the memory of all is used up before.
    """
    memory = Memory(10_000)
    session, _, _ = make(memory)
    for number in range(100):
        box = outbox(session)
        session.begin([b"%d" % number], box)
        session.deliver(b"x" * 1000, b"%d" % number, is_response=True)
        assert not box.is_finished, "the client is sent its response"
        box.drop()
        assert memory.kept_bytes <= memory.most_bytes
    assert resumed(session, f"{LIFE}.100.1") is not None
    assert resumed(session, f"{LIFE}.1.1") is None


def test_a_response_takes_the_room_of_older_ones_of_its_session():
    """
    Others get half of the memory whatever one session holds.
    """
    memory = Memory(10**6)
    session, _, _ = make(memory)
    for number in range(40):
        box = outbox(session)
        session.begin([b"%d" % number], box, b"%d" % number)
        session.deliver(b"r" * 50_000, b"%d" % number, is_response=True)
        box.drop()
    assert memory.kept_bytes <= memory.most_bytes / 2
    assert resumed(session, f"{LIFE}.1.1") is None
    assert resumed(session, f"{LIFE}.40.1") is not None
    session.closed("")
    assert memory.kept_bytes == 0


def test_a_response_for_which_there_is_no_room_and_nobody_is_held_as_an_error():
    memory = Memory(10**6)
    session, _, _ = make(memory)
    Share(memory).add(900_000)
    box = outbox(session)
    stream = session.begin([b"1"], box, b"1")
    stream.detach(box)
    session.deliver(b"r" * 300_000, b"1", is_response=True)
    again = outbox(session)
    stream.attach(again)
    queued = again._queue[0]
    assert isinstance(queued, Event)
    data = json.loads(queued.line)["error"]["data"]
    assert (data["kind"], data["outcome_unknown"]) == ("server_busy", True)


def test_a_drain_ends_every_connection_and_no_stream():
    session, _, _ = make()
    unasked, asked = outbox(session), outbox(session)
    session.unasked.attach(unasked)
    stream = session.begin([b"1"], asked)
    session.drain(b"retry: 1\n\n", unasked_only=True)
    assert (unasked.is_closed, asked.is_closed) == (True, False)
    session.drain(b"retry: 1\n\n")
    assert asked.is_closed and session.has_request(b"1")
    assert stream.ended_at is None


def test_a_change_is_saved():
    session, _, saved = make()
    session.changed(STATE)
    assert saved == [STATE]


def test_a_session_is_found_with_its_token_on_its_endpoint_alone():
    ident = new_id()
    sessions = Sessions()
    session, _, _ = make(digest=digest_of(ident))
    sessions.add(session)
    assert sessions.find(ident, ADA, "one") is session
    for wrong in (
        (ident + "x", ADA, "one"),
        (ident, BOB, "one"),
        (ident, None, "one"),
        (ident, ADA, "two"),
        (ident, ADA, None),
        ("\udc80é", ADA, "one"),
    ):
        assert sessions.find(*wrong) is None
    sessions.remove(session)
    sessions.remove(session)
    assert sessions.find(ident, ADA, "one") is None and not len(sessions)


def named(digest: str, used_at: float, requests: int = 2, **more):
    session, _, _ = make(digest=digest)
    session.used_at, session.request_count = used_at, requests
    for name, value in more.items():
        setattr(session, name, value)
    return session


def least(*all_: HttpSession) -> str | None:
    sessions = Sessions()
    for each in all_:
        sessions.add(each)
    found = sessions.least_needed()
    return None if found is None else found.digest


def test_a_session_without_a_second_request_goes_first():
    assert least(named("old", 1.0), named("curl", 9.0, 1)) == "curl"
    assert least(named("old", 1.0), named("new", 9.0)) == "old"


def test_of_an_earlier_daemons_session_nobody_knows_how_many_requests_it_had():
    assert least(named("old", 9.0, 0, is_restored=True), named("curl", 9.0, 1)) == "curl"


def test_a_session_in_use_stays():
    calling = named("calling", 0.0)
    calling.begin([b"1"], outbox(calling))
    assert least(named("streaming", 0.0, open_count=1), calling) is None
    assert least(named("streaming", 0.0, open_count=1), named("idle", 9.0)) == "idle"


def test_ids_are_long_and_fit_in_a_header():
    found = {new_id() for _ in range(100)}
    assert len(found) == 100
    assert all(len(each) == 43 and each.isascii() and each.isprintable() for each in found)


def test_a_response_after_its_client_has_left_is_counted_nowhere():
    memory = Memory(10**6)
    session, _, _ = make(memory)
    for is_answered in (True, False):
        left = outbox(session)
        stream = session.begin((b"1",), left)
        left.drop()
        session.forget(stream)  # it was given no event id
        session.deliver(b"p" * 1000, b"1", is_response=False)
        if is_answered:
            session.deliver(b"r" * 1000, b"1", is_response=True)
            assert memory.kept_bytes == 0
    session.closed("")
    assert memory.kept_bytes == 0
