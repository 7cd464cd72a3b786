"""Requests to one process, and what becomes of them when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from mcpd.core.catalog.model import Item
from mcpd.core.facts import Failure
from mcpd.core.interface.commands import Answered, Busy, Idle, Tell, ToServer, Want
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry, Settings
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mcp.routing import Routing
from mcpd.core.mcp.versions import NEWEST_MODERN, Era
from mcpd.core.requests.calls import Calls
from mcpd.core.requests.inflight import End, Outcome, UpstreamRequest, failed
from mcpd.ids import SlotId
from tests.unit.core.mux.world import Taker

CALL = CLIENT_REQUESTS["tools/call"]
GONE = Failure("server_crashed", "gone", "echo")


class Box:
    """Requests of one server, and what came of them."""

    def __init__(self, **fields: Any) -> None:
        self.ctx = Context(Settings(version="1", max_request_bytes=1000), lambda name, known: [])
        self.entry = Entry(name="echo", launch="echo-1", **fields)
        self.calls = Calls(self.ctx, SlotId("echo-1"), self.entry)
        self.outcomes: dict[str, object] = {}

    def pending(self, name: str, owner: int = 1, params: bytes = b"{}") -> UpstreamRequest:
        def take(outcome: Outcome) -> None:
            assert name not in self.outcomes, "answered twice"
            if outcome.failure is not None:
                self.outcomes[name] = outcome.failure.kind
            elif outcome.how is not End.CANCELLED:
                self.outcomes[name] = outcome.result or outcome.error

        return UpstreamRequest(owner, CALL, params, Taker(take), self.entry)

    def up(self) -> None:
        self.calls.begin()
        self.calls.open()

    def submit(self, name: str, owner: int = 1, params: bytes = b"{}") -> UpstreamRequest:
        pending = self.pending(name, owner, params)
        self.calls.submit(pending)
        return pending

    def finish(self, wire_id: int) -> None:
        self.answer(wire_id, Raw(b"{}"))

    def answer(self, wire_id: int, result: Raw | None, error: Raw | None = None) -> None:
        pending = self.calls.take(wire_id)
        assert pending is not None
        if pending.owner and not self.calls.has_answered:
            self.calls.mark_answered()
        outcome = Outcome(End.ANSWERED, result, error)
        self.calls.finish(pending, result, bytes(result or b""), outcome)

    def lose(self, *, is_planned: bool = False, comes_back: bool = True) -> None:
        self.calls.lose(GONE, is_planned=is_planned, comes_back=comes_back)

    def wait(self, seconds: float) -> None:
        self.ctx.now += seconds
        self.ctx.run_due()

    def sent(self) -> list[int]:
        """Return the ids of the requests that were sent since the last look."""
        commands, self.ctx.commands = self.ctx.commands, []
        return [c.wire_id for c in commands if isinstance(c, ToServer) and c.wire_id]

    def said(self, *kinds: type) -> list[object]:
        """Return the commands of some kinds since the last look."""
        commands, self.ctx.commands = self.ctx.commands, []
        return [c for c in commands if isinstance(c, kinds)]


def test_nothing_is_sent_before_the_process_is_ready():
    box = Box()
    box.submit("a")
    box.submit("b")
    assert box.sent() == []
    box.up()
    assert box.sent() == [1, 2]


def test_each_request_that_waits_wants_the_server():
    box = Box()
    box.submit("a")
    box.submit("b")
    assert box.said(Want) == [Want(SlotId("echo-1"))] * 2


def test_a_limit_is_kept_and_a_new_one_counts_at_once():
    """
    A limit that is lifted by the configuration must not leave a queue that nobody empties.
    """
    box = Box(max_concurrency=1)
    box.up()
    for name in "abcd":
        box.submit(name)
    assert box.sent() == [1] and box.calls.queued() == 3
    box.calls.configure(Entry(name="echo", launch="echo-1", max_concurrency=2))
    assert box.sent() == [2]
    box.calls.configure(Entry(name="echo", launch="echo-1", max_concurrency=0))
    assert box.sent() == [3, 4] and box.calls.queued() == 0


def test_what_does_not_fit_costs_itself_and_no_place():
    box = Box(max_concurrency=1)
    box.up()
    box.submit("a")
    box.submit("large", params=b'{"x":"' + b"y" * 1000 + b'"}')
    box.submit("b")
    box.finish(1)
    assert box.outcomes == {"a": Raw(b"{}"), "large": "message_too_large"}
    assert box.sent() == [1, 3]


def test_a_request_at_the_limit_is_sent():
    box = Box()
    box.up()
    overhead = len(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":""}}')
    box.submit("a", params=b'{"x":"%b"}' % (b"y" * (1000 - overhead)))
    box.submit("b", params=b'{"x":"%b"}' % (b"y" * (1001 - overhead)))
    assert box.outcomes == {"b": "message_too_large"}


def test_the_first_answer_is_told_once_for_each_process():
    box = Box()
    box.up()
    for _ in range(2):
        box.submit("x")
        box.submit("y")
        box.finish(1)
        box.finish(2)
        box.outcomes.clear()
        assert len(box.said(Answered)) == 1
        box.lose()
        box.up()


def test_answers_to_our_own_requests_prove_nothing():
    """
    B045: a process that lists its tools and dies at each call has not answered any.
    """
    box = Box()
    box.up()
    box.calls.own_requests.ask(CLIENT_REQUESTS["tools/list"], None, lambda result, error: None)
    box.finish(1)
    assert box.said(Answered) == []


def test_calls_and_errors_are_counted():
    box = Box(call_timeout=5)
    box.up()
    for name in ("fine", "tool says no", "server says no", "odd", "late", "lost"):
        box.submit(name)
    answers: list[tuple[Raw | None, Raw | None]] = [
        (Raw(b'{"isError":false}'), None),
        (Raw(b'{"isError":true}'), None),
        (None, Raw(b"{}")),
    ]
    for number, (result, error) in enumerate(answers, 1):
        box.answer(number, result, error)
    odd = box.calls.take(4)
    assert odd is not None
    box.calls.end(odd, failed(GONE))
    assert box.calls.counts.calls == 4 and box.calls.counts.errors == 3
    box.wait(5)
    assert box.calls.counts.take() == (6, 5)
    assert box.calls.counts.take() == (0, 0)


def test_progress_and_questions_stretch_the_time():
    box = Box(call_timeout=10, call_timeout_max=30)
    box.up()
    pending = box.submit("a")
    box.wait(9)
    box.calls.timeouts.restart(pending)
    box.wait(9)
    assert box.outcomes == {}
    box.calls.timeouts.suspend(pending)
    box.wait(100)
    box.calls.timeouts.restart(pending)
    box.wait(100)
    assert box.outcomes == {}
    box.calls.timeouts.resume(pending)
    box.wait(9)
    box.calls.timeouts.restart(pending)
    box.wait(2.9)
    assert box.outcomes == {}
    box.wait(0.1)
    assert box.outcomes == {"a": "call_timeout"}


def test_a_second_question_takes_nothing_from_the_time_that_is_left():
    box = Box(call_timeout=100, call_timeout_max=30)
    box.up()
    pending = box.submit("a")
    box.wait(10)
    box.calls.timeouts.suspend(pending)
    box.wait(50)
    box.calls.timeouts.suspend(pending)
    box.wait(50)
    box.calls.timeouts.resume(pending)
    box.calls.timeouts.resume(pending)
    box.wait(19.9)
    assert box.outcomes == {}
    box.wait(0.1)
    assert box.outcomes == {"a": "call_timeout"}


def test_a_call_that_is_over_leaves_no_timer():
    box = Box(call_timeout=10)
    box.up()
    box.submit("a")
    box.finish(1)
    assert box.ctx.next_deadline() is None


def test_a_call_that_is_repeated_has_all_its_time():
    box = Box(call_timeout=10)
    box.up()
    pending = UpstreamRequest(1, CLIENT_REQUESTS["resources/read"], b"{}", Taker(), box.entry)
    box.calls.submit(pending)
    box.wait(9)
    box.lose()
    assert box.ctx.next_deadline() is None
    box.wait(100)
    box.up()
    assert box.ctx.next_deadline() == box.ctx.now + 10


def test_what_was_not_written_may_be_sent_again():
    """
    B044: even a tool that must not be called twice, once nothing of it went out.
    """
    box = Box(max_concurrency=1)
    box.up()
    box.submit("seen")
    box.submit("unseen")
    box.lose()
    assert box.outcomes == {"seen": "server_crashed"}
    box.up()
    assert box.sent()[-1] == 1
    box.lose()
    assert box.outcomes == {"seen": "server_crashed", "unseen": "server_crashed"}


def test_what_waits_for_room_waits_for_it_anew_after_a_restart():
    """
    It was sent after the restart, and refused as one that waits when its first time was over.
    """
    box = Box(max_concurrency=1, queue_timeout=60.0)
    box.up()
    for name in "abc":
        box.submit(name)
    box.wait(50.0)
    box.lose(is_planned=True)
    assert box.outcomes == {"a": "server_crashed"}
    box.sent()
    box.up()
    assert box.sent() == [1]
    box.wait(50.0)
    assert box.outcomes == {"a": "server_crashed"}
    box.wait(10.0)
    assert box.outcomes == {"a": "server_crashed", "c": "server_busy"}
    box.finish(1)
    box.wait(100_000.0)
    assert box.sent() == [] and box.ctx.next_deadline() is None


def test_a_process_that_does_not_read_costs_one_call_after_the_other():
    """
    B066: the queue must not stand still behind what could not be written.
    """
    box = Box(max_concurrency=1)
    box.up()
    for name in "abc":
        box.submit(name)
    box.calls.unwritten.refuse(1)
    assert box.outcomes == {"a": "server_busy"}
    assert box.sent() == [1, 2]
    box.calls.unwritten.refuse(99)
    box.calls.unwritten.refuse(2)
    assert box.outcomes == {"a": "server_busy", "b": "server_busy"}


def test_what_was_not_written_because_the_process_has_gone_waits_for_the_next():
    box = Box()
    box.up()
    box.submit("a")
    box.calls.unwritten.refuse(1, is_gone=True)
    assert box.outcomes == {}
    box.lose()
    assert box.outcomes == {}
    box.up()
    assert box.sent() == [1, 1]


def outcome_of_ours(box: Box, **how: Callable[[], None]) -> list[object]:
    told: list[object] = []
    box.calls.own_requests.ask(
        CLIENT_REQUESTS["tools/list"],
        None,
        lambda result, error: told.append("answer" if error is None else "error"),
        unanswered=lambda error: told.append("lost" if error is None else "late"),
    )
    for act in how.values():
        act()
    return told


def test_our_own_requests_are_told_what_became_of_them():
    """
    Somebody waits for a list that is not answered, too.
    """
    box = Box()
    box.up()
    assert outcome_of_ours(box, act=lambda: box.finish(1)) == ["answer"]
    assert outcome_of_ours(box, act=lambda: box.calls.unwritten.refuse(2)) == ["error"]
    assert outcome_of_ours(box, act=lambda: box.wait(60)) == ["late"]
    assert outcome_of_ours(box, act=box.lose) == ["lost"]


def test_a_server_is_busy_while_anything_is_under_way():
    box = Box()
    box.calls.start_wait.when_ready(lambda failure: None)
    assert box.said(Busy, Idle) == [Busy(SlotId("echo-1"))]
    box.up()
    box.calls.usage.mark_idle()
    assert box.said(Busy, Idle) == [Idle(SlotId("echo-1"))]
    one = box.submit("a")
    box.submit("b")
    box.calls.end(one, Outcome(End.CANCELLED))
    assert box.said(Busy, Idle) == [Busy(SlotId("echo-1"))]
    box.finish(2)
    box.finish(3)  # a ping: it has read that the call was given up
    assert box.said(Busy, Idle) == [Idle(SlotId("echo-1"))]
    box.calls.usage.users.add(7)
    box.calls.usage.mark_busy()
    box.submit("c")
    box.finish(4)
    assert box.said(Busy, Idle) == [Busy(SlotId("echo-1"))]


def test_who_waits_for_the_process_is_told_once():
    box = Box()
    told: list[object] = []
    box.calls.start_wait.when_ready(told.append)
    box.lose()
    assert told == [GONE]
    box.calls.start_wait.when_ready(told.append)
    box.up()
    box.calls.start_wait.when_ready(told.append)
    assert told == [GONE, None, None]


def test_a_restart_by_a_person_keeps_what_was_not_sent():
    box = Box(max_concurrency=1)
    told: list[object] = []
    box.up()
    box.submit("sent")
    box.submit("queued")
    box.lose(is_planned=True)
    box.submit("came later")
    box.calls.start_wait.when_ready(told.append)
    box.lose(is_planned=True)
    assert box.outcomes == {"sent": "server_crashed"} and told == []
    box.up()
    assert told == [None]
    assert box.calls.load() == 2


def test_what_has_not_been_sent_can_be_handed_over():
    box = Box(max_concurrency=1)
    free: list[str] = []
    box.up()
    box.submit("sent")
    queued = box.submit("queued")
    assert box.calls.release(GONE, lambda: free.append("free")) == [queued]
    assert free == [] and box.calls.load() == 1
    box.finish(1)
    assert free == ["free"]


def test_a_place_without_anything_in_flight_is_free_at_once():
    box = Box()
    free, told = list[str](), list[object]()
    box.calls.start_wait.when_ready(told.append)
    waiting = box.submit("waiting")
    assert box.calls.release(GONE, lambda: free.append("free")) == [waiting]
    assert free == ["free"] and told == [GONE]


def test_a_handshake_that_could_not_be_written_is_left_to_the_start_up_time():
    """
    The process may be slow to begin with, and read later.
    """
    box = Box()
    box.calls.begin()
    told = list[object]()
    box.calls.own_requests.ask(
        CLIENT_REQUESTS["initialize"], None, lambda result, error: told.append(error)
    )
    box.calls.unwritten.refuse(1)
    assert told == []
    box.calls.open()
    box.submit("a")
    box.calls.unwritten.refuse(2)
    assert box.outcomes == {"a": "server_busy"}


def test_lines_that_were_not_taken_are_told_of_once_a_second():
    box = Box()
    for now in (5.0, 5.1, 5.9, 6.0, 6.5):
        box.ctx.now = now
        box.calls.unwritten.refuse(0)
    box.calls.unwritten.refuse(0, is_gone=True)
    facts = [c.fact for c in box.ctx.commands if isinstance(c, Tell)]
    assert [fact.text.rsplit(" ", 1)[1] for fact in facts] == ["1", "3"]


# -- one request fails, and the process goes on ---------------------------------------------------


REFUSED = Failure("connect_failed", "HTTP 502", "echo", True)


def test_a_request_that_fails_alone_is_sent_once_more_where_that_does_no_harm():
    box = Box()
    box.calls.find_tool = lambda name: Item(name, b'{"annotations":{"readOnlyHint":true}}')
    box.up()
    leg = box.submit("a")
    leg.tool = "look"
    box.calls.fail(leg.wire_id, REFUSED, may_repeat=True)
    assert box.sent() == [1, 2] and box.outcomes == {}
    box.calls.fail(leg.wire_id, REFUSED, may_repeat=True)
    assert box.sent() == [] and box.outcomes == {"a": "connect_failed"}


@pytest.mark.parametrize("may_repeat", [True, False])
def test_a_request_that_may_do_harm_fails_at_once_and_no_other_with_it(may_repeat):
    box = Box()
    box.up()
    leg, other = box.submit("a"), box.submit("b")
    leg.tool = "write"
    box.calls.fail(leg.wire_id, REFUSED, may_repeat=may_repeat)
    assert box.outcomes == {"a": "connect_failed"}
    box.calls.fail(leg.wire_id, REFUSED, may_repeat=may_repeat)
    box.finish(other.wire_id)
    assert set(box.outcomes) == {"a", "b"}


def test_what_no_process_has_read_goes_to_the_next_ten():
    box = Box()
    box.submit("a")
    for _ in range(10):
        box.up()
        (ident,) = box.sent()
        box.calls.unwritten.refuse(ident, is_gone=True)
        box.lose()
    assert box.outcomes == {}
    box.up()
    (ident,) = box.sent()
    box.calls.unwritten.refuse(ident, is_gone=True)
    box.lose()
    assert box.outcomes == {"a": "server_crashed"}


def test_headers_repeat_parts_of_a_request_where_there_are_headers():
    box = Box(is_remote=True)
    schema = b'{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}'
    box.calls.find_tool = lambda name: Item(name, b'{"inputSchema":' + schema + b"}")
    box.up()
    box.submit("legacy")
    box.calls.era = Era.MODERN
    leg = box.pending("modern", params=b'{"name":"look","arguments":{"a":"x"}}')
    leg.tool = "look"
    box.calls.submit(leg)
    legacy, modern = [command.routing for command in box.said(ToServer)]
    assert legacy == Routing("tools/call")
    assert modern == Routing("tools/call", NEWEST_MODERN, "look", (("a", "x"),))
