"""What a session owes its client, and what it is made of."""

from __future__ import annotations

import json

import pytest

from mcpd.bridge.error_responses import failure
from mcpd.bridge.session.queue import Item
from mcpd.bridge.session.state import SessionState

ERROR = {"code": -32603, "message": "gone", "data": {"kind": "outcome_unknown"}}


def line(**message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def take(state: SessionState, *chunks: bytes) -> None:
    """Have the daemon take a frame of the client's."""
    state.sent(Item(list(chunks)))


def sent(*messages: bytes) -> SessionState:
    state = SessionState()
    for message in messages:
        take(state, message)
    return state


def frames(state: SessionState) -> list[bytes]:
    return list(state.frames().values())


def test_a_request_is_owed_its_answer():
    state = sent(line(id=1, method="a"), line(id="1", method="b"), line(method="notifications/c"))
    assert state.in_flight == {b"1": (b"a",), b'"1"': (b"b",)}
    state.from_daemon([line(id="1", result={})])
    state.from_daemon([line(id=1, error={"code": 1, "message": ""})])
    assert state.in_flight == {}


def test_questions_and_notifications_of_the_daemon_answer_nothing():
    """
    The ids of its questions are its own.
    """
    state = sent(line(id=1, method="a"))
    for message in [
        line(id=1, method="roots/list"),
        line(method="notifications/progress", params={"id": 1}),
        line(id=2, result={}),
        line(id=None, error={"code": -32700, "message": ""}),
        b"garbage\n",
    ]:
        state.from_daemon([message])
    assert state.in_flight == {b"1": (b"a",)}


def test_an_answer_of_the_client_is_no_request():
    assert sent(line(id=1, result={}), line(id=2, error={})).in_flight == {}


def test_an_id_in_escapes_is_the_same_id():
    state = sent(rb'{"jsonrpc":"2.0","id":"\u0061","method":"m"}' + b"\n")
    state.from_daemon([line(id="a", result={})])
    assert state.in_flight == {}


def test_an_id_used_twice_is_owed_two_answers():
    """
    The daemon refuses the second under the same id; the first is still to come.
    """
    state = sent(line(id=1, method="a"), line(id=1, method="b"))
    state.from_daemon([line(id=1, error={"code": -32600, "message": "twice"})])
    assert state.in_flight == {b"1": (b"a",)}
    assert len(sent(line(id=1, method="a"), line(id=1, method="b")).daemon_lost(ERROR)) == 2


def test_what_the_client_cancels_is_owed_nothing():
    cancel = line(method="notifications/cancelled", params={"requestId": "x", "reason": "r"})
    assert sent(line(id="x", method="a"), line(id=2, method="b"), cancel).in_flight == {
        b"2": (b"b",)
    }


@pytest.mark.parametrize("params", [None, [], {}, {"requestId": None}, {"requestId": {"a": []}}])
def test_a_cancellation_of_nothing_cancels_nothing(params):
    cancel = line(method="notifications/cancelled", params=params)
    assert sent(line(id=1, method="a"), cancel).in_flight == {b"1": (b"a",)}


def test_a_batch_is_owed_an_answer_for_each_request():
    batch = [{"id": 1, "method": "a"}, {"method": "notifications/b"}, {"id": 2, "method": "c"}]
    state = sent(json.dumps(batch).encode() + b"\n")
    assert list(state.in_flight) == [b"1", b"2"]
    state.from_daemon([json.dumps([{"id": 2, "result": 0}, {"id": 1, "result": 0}]).encode()])
    assert state.in_flight == {}


def test_what_is_given_up_gets_one_error_each():
    state = sent(line(id=1, method="a"), line(id='q"', method="b"))
    answers = state.daemon_lost(ERROR)
    assert [json.loads(one) for one in answers] == [
        {"jsonrpc": "2.0", "id": 1, "error": ERROR},
        {"jsonrpc": "2.0", "id": 'q"', "error": ERROR},
    ]
    assert all(one.endswith(b"\n") and one.count(b"\n") == 1 for one in answers)
    assert state.in_flight == {}
    assert state.daemon_lost(ERROR) == []


def test_a_failure_is_one_line():
    frame = failure(b'"x"', {"code": 1, "message": "é\n"})
    assert json.loads(frame)["error"]["message"] == "é\n"
    assert frame.count(b"\n") == 1


def test_initialize_is_never_cancelled():
    state = sent(line(id=0, method="initialize"), line(id="b", method="tools/call"))
    [cancel] = [json.loads(one) for one in state.cancellations()]
    assert cancel["method"] == "notifications/cancelled"
    assert cancel["params"]["requestId"] == "b"


def subscribe(uri: str, method: str = "resources/subscribe") -> bytes:
    return line(id=9, method=method, params={"uri": uri})


def test_the_frames_that_make_up_the_session_are_remembered_in_order():
    handshake = [
        line(id=0, method="initialize", params={}),
        line(method="notifications/initialized"),
    ]
    levels = [line(id=n, method="logging/setLevel", params={"level": n}) for n in (1, 2)]
    roots = line(method="notifications/roots/list_changed")
    state = sent(
        *handshake,
        levels[0],
        subscribe("a:1"),
        subscribe("a:2"),
        line(id=5, method="tools/call", params={}),
        levels[1],
        subscribe("a:1", "resources/unsubscribe"),
        roots,
    )
    assert frames(state) == [*handshake, subscribe("a:2"), levels[1], roots]


def test_a_repeated_subscription_is_remembered_once():
    assert frames(sent(subscribe("a"), subscribe("a"))) == [subscribe("a")]


def test_a_frame_in_pieces_is_remembered_whole():
    frame = line(id=0, method="initialize", params={"x": "y" * 100})
    state = SessionState()
    take(state, frame[:50], frame[50:])
    assert frames(state) == [frame]


ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def modern(ident: object, method: str, **params: object) -> bytes:
    return line(id=ident, method=method, params={**params, "_meta": ENVELOPE})


def listen(ident: object, *uris: str) -> bytes:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": uris}
    return modern(ident, "subscriptions/listen", notifications=wanted)


def cancel(ident: object) -> bytes:
    return line(method="notifications/cancelled", params={"requestId": ident})


def test_requests_of_the_modern_era_leave_nothing_behind():
    """
    Each of them says all that there is to say: a new daemon needs none of them.
    """
    state = SessionState()
    for number in range(1000):
        for name in ("server/discover", "tools/list", "tools/call", "resources/read"):
            take(state, modern(f"{name} {number}", name))
            state.from_daemon([line(id=f"{name} {number}", result={"resultType": "complete"})])
    assert frames(state) == []
    assert state.in_flight == {}


def test_an_input_required_result_is_an_answer():
    state = sent(modern(1, "tools/call"))
    state.from_daemon([line(id=1, result={"resultType": "input_required", "requestState": "s"})])
    assert state.in_flight == {}


def test_no_answer_to_a_listen_is_awaited():
    """
    It may never come: at the end of input a listen is over like the session itself.
    """
    state = sent(listen("l"), modern(1, "tools/call"))
    assert state.pending_count() == 1
    assert [json.loads(one)["params"]["requestId"] for one in state.cancellations()] == [1]
    state.from_daemon([line(id=1, result={})])
    assert state.pending_count() == 0
    assert list(state.in_flight) == [b'"l"']


def test_a_listen_outlives_the_daemon():
    """
    The next one gets it again, so its client is told nothing.
    """
    state = sent(listen(7), modern("7", "tools/call"))
    assert [json.loads(one)["id"] for one in state.daemon_lost(ERROR)] == ["7"]
    assert frames(state) == [listen(7)]
    assert list(state.in_flight) == [b"7"]


@pytest.mark.parametrize("ident", [1, "1", 0, -5, 12345678901234567890, "", "ü", 'a"\\', "\ud83d"])
def test_an_open_listen_is_part_of_the_session_until_it_is_over(ident):
    """
    Ids are texts or numbers, and ``1`` is another one than ``"1"``.
    """
    handshake = line(id="h", method="initialize", params={})
    others = [listen("other", "a:1"), listen(99)]
    state = sent(handshake, others[0], listen(ident, "a:2"), others[1])
    assert frames(state) == [handshake, others[0], listen(ident, "a:2"), others[1]]
    for message in [
        line(method="notifications/subscriptions/acknowledged", params={"_meta": {}}),
        line(method="notifications/tools/list_changed", params={"_meta": {}}),
    ]:
        state.from_daemon([message])
    assert len(frames(state)) == 4
    take(state, cancel(str(ident) if type(ident) is int else 1e3))
    assert len(frames(state)) == 4
    take(state, cancel(ident))
    assert frames(state) == [handshake, *others]
    take(state, listen(ident))
    state.from_daemon([line(id=ident, result={"resultType": "complete"})])
    assert frames(state) == [handshake, *others]
    assert list(state.in_flight) == [b'"h"', b'"other"', b"99"]


def test_a_listen_under_an_id_that_is_taken_is_refused_and_the_first_stays():
    state = sent(listen(1, "a:1"), listen(1, "a:2"))
    assert frames(state) == [listen(1, "a:1")]
    state.from_daemon([line(id=1, error={"code": -32600, "message": "twice"})])
    assert frames(state) == [listen(1, "a:1")]
    state = sent(modern(1, "tools/call"), listen(1))
    state.from_daemon([line(id=1, error={"code": -32600, "message": "twice"})])
    assert frames(state) == []
    assert state.in_flight == {b"1": (b"tools/call",)}


def test_a_listen_in_pieces_is_remembered_whole():
    frame = listen("l", *(f"file:///{number}" for number in range(9999)))
    state = SessionState()
    take(state, frame[:100], frame[100:-1], b"\n")
    assert frames(state) == [frame]
    assert state.pending_count() == 0


def test_a_listen_without_an_id_is_none():
    state = sent(line(method="subscriptions/listen"), line(id=None, method="subscriptions/listen"))
    assert frames(state) == []
    assert state.in_flight == {}


@pytest.mark.parametrize("params", [b"[]", b"7", b'{"uri":["a"]}', b'{"uri":' + b"[" * 9999 + b"}"])
def test_odd_subscriptions_raise_nothing(params):
    frame = b'{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":' + params + b"}\n"
    assert frames(sent(frame)) == [frame]


# -- when the daemon is lost -----------------------------------------------------------------------

INITIALIZE = line(id=0, method="initialize", params={})


def read(state: SessionState, *messages: bytes, is_up: bool = False) -> None:
    for message in messages:
        state.from_client([message], is_up=is_up)


def waiting(state: SessionState) -> list[bytes]:
    return [b"".join(item.chunks) for item in state.queue]


def test_what_was_not_sent_is_still_to_be_sent_and_gets_no_error():
    state = sent(line(id=1, method="a"))
    read(state, line(id=2, method="b"), line(method="notifications/c"))
    assert [json.loads(one)["id"] for one in state.daemon_lost(ERROR)] == [1]
    assert waiting(state) == [line(id=2, method="b"), line(method="notifications/c")]
    assert state.pending_count() == 1


def test_how_the_client_gets_to_know_its_server_may_be_asked_again():
    state = sent(INITIALIZE, modern("d", "server/discover"), line(id=1, method="tools/list"))
    assert [json.loads(one)["id"] for one in state.daemon_lost(ERROR)] == [1]
    assert frames(state) == [INITIALIZE]
    assert waiting(state) == [modern("d", "server/discover")]
    assert list(state.in_flight) == [b"0"]


def test_an_initialize_that_failed_is_no_part_of_the_session():
    state = sent(INITIALIZE)
    state.from_daemon([line(id=0, error={"code": -32603, "message": "no"})])
    assert frames(state) == []


def test_an_open_question_is_withdrawn_and_a_late_answer_goes_nowhere():
    """
    The next daemon's questions may have the same ids.
    """
    state = SessionState()
    state.from_daemon([line(id=1, method="elicitation/create")])
    state.from_daemon([line(id="q", method="roots/list")])
    read(state, line(id="q", result={"roots": []}))
    state.daemon_lost(ERROR)
    assert waiting(state) == [], "an answer that was not sent yet was for the old daemon"
    [told] = [json.loads(one) for one in state.questions.withdraw_all()]
    assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", 1)
    assert not state.from_daemon([line(id=1, method="sampling/createMessage")])
    read(state, line(id=1, result={"action": "accept"}))
    assert waiting(state) == []
    assert state.from_daemon([line(id=1, method="sampling/createMessage")])
    read(state, line(id=1, result={"text": "x"}))
    assert waiting(state) == [line(id=1, result={"text": "x"})]


def test_a_request_that_waits_is_taken_back_by_its_cancellation():
    state = SessionState()
    read(state, line(id=1, method="a"), line(id=2, method="b"), cancel(1), cancel(9))
    assert waiting(state) == [line(id=2, method="b"), cancel(9)]
    read(state, line(id=3, method="c"), cancel(3), is_up=True)
    assert waiting(state)[2:] == [line(id=3, method="c"), cancel(3)]


def draining(ident: object, **data: object) -> bytes:
    told = {"kind": "draining", "retryable": True, **data}
    return line(id=ident, error={"code": -32603, "message": "it ends", "data": told})


def test_what_a_draining_daemon_sends_back_is_for_the_next_one():
    state = sent(line(id=1, method="a"), line(id=2, method="b"))
    read(state, line(id=3, method="c"))
    assert not state.from_daemon([draining(2)])
    assert state.pending_count() == 3
    assert [json.loads(one)["id"] for one in state.daemon_lost(ERROR)] == [1]
    assert waiting(state) == [line(id=2, method="b"), line(id=3, method="c")]


def test_a_call_that_was_cut_short_by_the_end_is_not_made_again():
    state = sent(line(id=1, method="a"))
    assert state.from_daemon([draining(1, outcome_unknown=True)])
    assert state.daemon_lost(ERROR) == []
    assert waiting(state) == []


def test_only_so_much_is_kept_of_requests_in_flight():
    """
    A large one gets the error: its client has it still.
    """
    large = line(id=1, method="a", params={"x": "y" * 70_000})
    state = sent(large)
    assert state.from_daemon([draining(1)])
    state = sent(*(line(id=n, method="a", params={"x": "y" * 60_000}) for n in range(40)))
    passed = [n for n in range(40) if state.from_daemon([draining(n)])]
    assert len(passed) == 40 - (1 << 20) // 60_054


def test_a_listen_that_ends_with_the_daemon_goes_on_with_the_next():
    state = sent(listen("l"))
    meta = {"io.modelcontextprotocol/subscriptionId": "l", "mcpd/draining": True}
    ended = line(id="l", result={"resultType": "complete", "_meta": meta})
    assert not state.from_daemon([ended])
    assert frames(state) == [listen("l")]
    other = line(id=1, result={"resultType": "complete", "_meta": meta})
    take(state, modern(1, "tools/call"))
    assert state.from_daemon([line(id=1, result={"_meta": {"mcpd/draining": False}})])
    assert state.from_daemon([other])


def test_a_handshake_that_a_draining_daemon_sends_back_is_made_once_by_the_replay():
    """
    Under its own id, not once more from what waits: two of them are an error to some servers.
    """
    for state in (sent(INITIALIZE), sent(INITIALIZE)):
        assert not state.from_daemon([draining(0)])
        assert state.daemon_lost(ERROR) == []
        assert (waiting(state), frames(state)) == ([], [INITIALIZE])
        assert state.in_flight == {b"0": (b"initialize",)}
        assert not state.from_daemon([draining(0)]), "nor if the next one drains too"


def test_a_listen_that_is_cancelled_between_two_daemons_is_not_made_again():
    """
    Not even if its cancellation never reaches one, since there is none for a long time.
    """
    state = sent(listen("l"), listen("m"))
    state.daemon_lost(ERROR)
    read(state, cancel("l"))
    assert state.fail_queued(ERROR) == []
    assert frames(state) == [listen("m")]
    read(state, cancel("m"), is_up=True)
    assert waiting(state) == [cancel("m")]


FAREWELL = line(method="mcpd/farewell")


def test_what_an_orderly_daemon_has_not_read_is_for_the_next_one():
    """
    It was sent while the daemon closed the connection: nothing was done about it.
    """
    state = sent(INITIALIZE, line(id=1, method="a"))
    state.from_daemon([line(id=1, result={})])
    take(state, line(id=2, method="b"))
    assert not state.from_daemon([FAREWELL])
    take(state, line(id=3, method="c"))
    assert state.daemon_lost(ERROR) == []
    assert waiting(state) == [line(id=2, method="b"), line(id=3, method="c")]
    assert list(state.in_flight) == [b"0"]
    for item in state.queue.clear():
        state.sent(item)
    assert [json.loads(one)["error"] for one in state.daemon_lost(ERROR)] == [ERROR] * 2, "once"


def test_what_it_has_not_read_and_nobody_has_kept_is_said_to_be_so():
    state = sent(line(id=1, method="a", params={"x": "y" * 70_000}))
    state.from_daemon([FAREWELL])
    [answer] = [json.loads(one) for one in state.daemon_lost(ERROR)]
    assert (answer["error"]["data"]["kind"], answer["error"]["data"]["retryable"]) == (
        "draining",
        True,
    )


def test_what_cannot_be_sent_is_answered_with_the_reason_once():
    state = sent(INITIALIZE)
    state.daemon_lost(ERROR)
    read(
        state,
        line(id=1, method="a"),
        line(method="notifications/initialized"),
        line(id=2, method="logging/setLevel"),
    )
    assert sorted(json.loads(one)["id"] for one in state.fail_queued(ERROR)) == [0, 1, 2]
    assert frames(state) == [line(method="notifications/initialized")]
    assert waiting(state) == []
    assert state.fail_queued(ERROR) == []
    assert state.pending_count() == 0


def test_only_the_answer_to_a_withdrawn_question_is_dropped():
    state = SessionState()
    state.questions.add(b"1")
    state.questions.withdraw_all()
    others = [
        line(id=1, method="tools/call"),
        line(method="notifications/x"),
        b"[]\n",
        b"[" + line(id=1, result={})[:-1] + b"," + line(id=2, result={})[:-1] + b"]\n",
        b'{"id":null}\n',
        line(id=2, result={}),
    ]
    for message in [*others, line(id=1, result={})]:
        state.from_client([message], is_up=True)
    assert [item.chunks for item in state.queue] == [[message] for message in others]
