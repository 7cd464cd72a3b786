"""CallGate: one session at a time has calls in flight that can be asked about."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import ToServer
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry, Interactive, Settings
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mcp.versions import Era
from mcpd.core.requests.call_gate import LENDS_AFTER, Who
from mcpd.core.requests.calls import Calls
from mcpd.core.requests.inflight import End, Outcome, UpstreamRequest
from mcpd.ids import SlotId
from tests.unit.core.mux.world import Taker

CALL = CLIENT_REQUESTS["tools/call"]
CANCELLED = Outcome(End.CANCELLED)
GONE = Failure("server_crashed", "gone", "echo")


class Floor:
    """One process that is up, whose sessions take turns, and what became of their calls."""

    def __init__(self, **fields: Any) -> None:
        self.ctx = Context(Settings(version="1"), lambda name, known: [])
        fields = {"interactive": Interactive.EXCLUSIVE} | fields
        self.entry = Entry(name="echo", launch="echo-1", **fields)
        self.calls = Calls(self.ctx, SlotId("echo-1"), self.entry)
        self.turns = self.calls.gate
        self.failures: list[Failure] = []
        self.calls.begin()
        self.calls.open()

    def call(self, owner: int, *, is_asking: bool = True) -> UpstreamRequest:
        def take(outcome: Outcome) -> None:
            if outcome.failure is not None:
                self.failures.append(outcome.failure)

        pending = UpstreamRequest(owner, CALL, b"{}", Taker(take), self.entry)
        pending.is_asking = is_asking
        self.calls.submit(pending)
        return pending

    def finish(self, pending: UpstreamRequest) -> None:
        assert self.calls.take(pending.wire_id) is pending
        self.calls.finish(pending, Raw(b"{}"), b"", Outcome(End.ANSWERED, b"{}"))

    def wait(self, seconds: float) -> None:
        self.ctx.now += seconds
        self.ctx.run_due()

    def sent(self) -> list[int]:
        return [c.wire_id for c in self.ctx.commands if isinstance(c, ToServer) and c.wire_id]


def test_calls_of_one_session_run_side_by_side_and_others_wait() -> None:
    floor = Floor()
    first, second, other = floor.call(1), floor.call(1), floor.call(2)
    assert first.is_written and second.is_written and not other.is_written
    floor.finish(first)
    assert not other.is_written
    floor.finish(second)
    assert other.is_written


def test_once_others_wait_new_calls_of_who_has_the_turn_wait_behind_them() -> None:
    """
    Overlapping calls would keep the turn for ever.
    """
    floor = Floor()
    first, other, again = floor.call(1), floor.call(2), floor.call(1)
    assert not again.is_written
    floor.finish(first)
    assert other.is_written and not again.is_written
    floor.finish(other)
    assert again.is_written


def test_a_session_goes_with_all_that_it_has_in_line() -> None:
    floor = Floor()
    first = floor.call(1)
    waiting = [floor.call(owner) for owner in (2, 3, 2)]
    floor.finish(first)
    assert [w.is_written for w in waiting] == [True, False, True]


def test_who_can_be_asked_nothing_never_waits() -> None:
    floor = Floor()
    floor.call(1)
    assert floor.call(2, is_asking=False).is_written


def test_nobody_waits_where_nobody_takes_turns() -> None:
    for fields in (
        {"interactive": Interactive.SHARED},
        {"interactive": Interactive.OFF},
        {"interactive": Interactive.AUTO},
    ):
        floor = Floor(**fields)
        floor.call(1)
        assert floor.call(2).is_written
        assert floor.turns.report(0.0).running == ()
    floor = Floor()
    floor.calls.era = Era.MODERN
    floor.call(1)
    assert floor.call(2).is_written


def test_a_first_question_begins_turns_and_all_in_flight_must_end_first() -> None:
    floor = Floor(interactive=Interactive.AUTO)
    first, second = floor.call(1), floor.call(2)
    floor.turns.mark_asked()
    mine, other = floor.call(1), floor.call(3)
    floor.finish(second)
    assert mine.is_written and not other.is_written  # whatever is in flight is its own
    floor.finish(first)
    assert not other.is_written
    floor.finish(mine)
    assert other.is_written


def test_what_an_earlier_life_has_seen_begins_turns() -> None:
    floor = Floor(interactive=Interactive.AUTO, has_asked=True)
    floor.call(1)
    assert not floor.call(2).is_written


def test_a_session_that_is_asked_does_not_wait_even_with_what_is_in_line() -> None:
    """
    Answering may need the server: it would wait for others, who wait for the answer.
    """
    floor = Floor()
    floor.call(1)
    floor.call(2)
    mine = floor.call(1)
    floor.calls.question_opened(1)
    assert mine.is_written
    assert floor.call(1).is_written
    floor.turns.question_closed(1)
    assert not floor.call(1).is_written


def test_a_question_that_stays_open_lends_the_turn() -> None:
    floor = Floor()
    floor.call(1)
    second, third = floor.call(2), floor.call(3)
    floor.calls.question_opened(1)
    floor.wait(LENDS_AFTER - 0.1)
    assert not second.is_written
    floor.wait(0.1)
    assert second.is_written and not third.is_written
    floor.calls.question_opened(2)
    floor.wait(LENDS_AFTER)
    assert third.is_written


def test_an_answer_in_time_lends_nothing() -> None:
    floor = Floor()
    floor.call(1)
    second = floor.call(2)
    floor.calls.question_opened(1)
    floor.calls.question_opened(1)
    floor.turns.question_closed(1)
    floor.turns.question_closed(1)
    floor.wait(LENDS_AFTER)
    assert not second.is_written


def test_who_has_lent_its_turn_and_goes_on_is_waited_for_again() -> None:
    floor = Floor()
    first, second = floor.call(1), floor.call(2)
    floor.calls.question_opened(1)
    floor.wait(LENDS_AFTER)
    floor.turns.question_closed(1)
    third = floor.call(3)
    floor.finish(second)
    assert not third.is_written
    floor.finish(first)
    assert third.is_written


def test_who_waits_too_long_is_told_who_has_the_turn() -> None:
    floor = Floor(queue_timeout=10)
    floor.call(1)
    floor.wait(5)
    floor.call(2)
    floor.wait(10)
    (failure,) = floor.failures
    assert failure.kind == "server_busy" and failure.is_retryable
    assert "session 1 has had it for 15 s" in failure.message
    assert failure.details["turn"] == {"session": 1, "since_s": 15.0}
    assert len(floor.turns) == 0


def test_no_limit_means_no_limit() -> None:
    floor = Floor(queue_timeout=0)
    floor.call(1)
    second = floor.call(2)
    floor.wait(1e6)
    assert floor.failures == [] and not second.is_over


def test_the_time_in_line_ends_with_the_turn() -> None:
    floor = Floor(queue_timeout=10)
    first, second = floor.call(1), floor.call(2)
    floor.finish(first)
    floor.wait(100)
    assert floor.failures == [] and not second.is_over


def test_what_is_cancelled_in_line_leaves_it() -> None:
    floor = Floor()
    first, second, third = floor.call(1), floor.call(2), floor.call(3)
    floor.calls.end(second, CANCELLED)
    assert len(floor.turns) == 1
    floor.finish(first)
    assert not second.is_written and third.is_written


def test_a_place_and_a_turn_are_two_things() -> None:
    """
    What has its turn and waits for a place holds the turn.
    """
    floor = Floor(max_concurrency=1)
    first, mine, other = floor.call(1), floor.call(1), floor.call(2)
    assert floor.sent() == [1]
    floor.finish(first)
    assert mine.is_written and not other.is_written
    floor.finish(mine)
    assert other.is_written


def test_a_restart_keeps_the_line_and_its_order() -> None:
    floor = Floor()
    floor.call(1)
    waiting = [floor.call(2), floor.call(3)]
    floor.calls.lose(GONE, is_planned=True, comes_back=True)
    assert [f.kind for f in floor.failures] == ["server_crashed"]
    floor.calls.begin()
    floor.calls.open()
    assert [w.is_written for w in waiting] == [True, False]
    floor.finish(waiting[0])
    assert waiting[1].is_written


def test_a_call_that_is_repeated_after_a_crash_keeps_its_turn() -> None:
    floor = Floor(may_repeat=True)
    first = floor.call(1)
    first.is_written = False
    floor.calls.lose(GONE, is_planned=False, comes_back=True)
    other = floor.call(2)
    floor.calls.begin()
    floor.calls.open()
    assert first.is_written and not other.is_written
    floor.finish(first)
    assert other.is_written


def test_what_is_taken_elsewhere_holds_no_turn_here() -> None:
    floor = Floor(max_concurrency=1)
    first = floor.call(1)
    floor.call(1)
    floor.calls.release(GONE, lambda: None)
    floor.calls.usage.reclaim()
    other = floor.call(2)
    assert not other.is_written
    floor.finish(first)
    assert other.is_written


def test_a_line_goes_when_the_configuration_says_so() -> None:
    floor = Floor()
    floor.call(1)
    second = floor.call(2)
    floor.calls.configure(Entry(name="echo", launch="echo-1", interactive=Interactive.SHARED))
    assert second.is_written


def test_a_watched_request_is_told_of_however_it_ends() -> None:
    floor = Floor()
    ended: list[str] = []
    first, second, third = floor.call(1), floor.call(1), floor.call(2)
    for name, pending in (("first", first), ("second", second), ("third", third)):
        floor.turns.watch(pending, 1, lambda name=name: ended.append(name))  # type: ignore[misc]
    floor.turns.watch(first, 2, lambda: ended.append("nobody wants to know"))
    floor.turns.unwatch(first, 2)
    floor.turns.unwatch(first, 3)
    floor.finish(first)
    floor.calls.end(third, CANCELLED)
    floor.calls.lose(GONE, is_planned=False, comes_back=False)
    assert ended == ["first", "third", "second"]


def test_the_report_says_who_has_the_turn_and_who_waits() -> None:
    floor = Floor()
    floor.call(1)
    floor.wait(3)
    floor.call(3)
    floor.call(2)
    floor.call(3)
    report = floor.turns.report(floor.ctx.now + 1)
    assert report.mode is Interactive.EXCLUSIVE
    assert report.running == (Who(1, 4.0),)
    assert report.waiting == (Who(3, 1.0), Who(2, 1.0))
    floor.calls.question_opened(1)
    floor.wait(LENDS_AFTER)
    report = floor.turns.report(floor.ctx.now)
    assert report.running == (Who(1, 5.0, is_lent=True), Who(3, 0.0))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "finish", "cancel", "open", "close", "wait"]),
        st.integers(1, 4),
    ),
    max_size=60,
)


@given(STEPS)
def test_nobody_is_sent_beside_a_call_of_somebody_else_that_was_not_lent(
    steps: list[tuple[str, int]],
) -> None:
    """
    Whatever the order: with the turn not lent, and no own question open, a session starts alone;
    and in the end nobody is left in line.
    """
    floor = Floor(queue_timeout=0)
    calls: list[UpstreamRequest] = []
    asked: dict[int, float] = {}
    seen: set[UpstreamRequest] = set()

    def look() -> None:
        now = floor.ctx.now
        flying = [p for p in calls if p.is_written and not p.is_over]
        for pending in flying:
            if pending in seen:
                continue
            seen.add(pending)
            if pending.owner in asked:
                continue
            for other in flying:
                is_lent = other.owner in asked and now - asked[other.owner] >= LENDS_AFTER
                assert other.owner == pending.owner or is_lent

    for step, who in steps:
        own = [p for p in calls if p.owner == who and p.is_written and not p.is_over]
        if step == "call":
            calls.append(floor.call(who))
        elif step == "finish" and own and who not in asked:
            floor.finish(own[0])
        elif step == "cancel":
            left = [p for p in calls if p.owner == who and not p.is_over and p not in own]
            if left:
                floor.calls.end(left[0], CANCELLED)
        elif step == "open" and own and who not in asked:
            asked[who] = floor.ctx.now
            floor.calls.question_opened(who)
        elif step == "close" and who in asked:
            del asked[who]
            floor.turns.question_closed(who)
        elif step == "wait":
            floor.wait(who)
        look()
    for who in list(asked):
        floor.turns.question_closed(who)
    asked.clear()
    while flying := [p for p in calls if p.is_written and not p.is_over]:
        floor.finish(flying[0])
        look()
    assert all(p.is_over for p in calls) and len(floor.turns) == 0
