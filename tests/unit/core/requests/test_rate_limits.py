"""Calls that are over a rate."""

from __future__ import annotations

from mcpd.core.facts import Failure
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Settings
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.policy.rates import Meter, Rate
from mcpd.core.requests.inflight import Recipient, UpstreamRequest
from mcpd.core.requests.rate_limits import PAUSE_S, Limit, RateLimits

CALL = CLIENT_REQUESTS["tools/call"]
A_MINUTE = Rate(60, 60.0)
OF_SERVER = Limit(("server", "a"), "server", A_MINUTE)


class Gate:
    """Rates with a clock of their own, and what became of calls."""

    def __init__(self) -> None:
        self.ctx = Context(Settings(version="1"), lambda name, known: [])
        self.passed: list[int] = []
        self.refused: list[Failure] = []
        self.limits = RateLimits(self.ctx, lambda leg: self.passed.append(leg.owner))

    def call(self, owner: int = 1, *limits: Limit, most_s: float = 5.0) -> object:
        leg = UpstreamRequest(owner, CALL, None, Recipient())
        return self.limits.admit(leg, limits or (OF_SERVER,), most_s, self.refused.append)

    def until(self, at: float) -> None:
        while (due := self.ctx.next_deadline()) is not None and due <= at:
            self.ctx.now = max(self.ctx.now, due)
            self.ctx.run_due()
        self.ctx.now = at
        self.ctx.run_due()


def test_a_meter_lets_a_burst_through_and_then_one_at_a_time() -> None:
    meter = Meter(A_MINUTE)
    for _ in range(10):
        assert meter.wait(100.0) == 0
        meter.take(100.0)
    assert meter.wait(100.0) == 1.0 and meter.wait(101.0) == 0 and not meter.is_full(109.0)
    assert meter.is_full(110.0)


def test_a_burst_is_a_sixth_of_what_comes_in_a_period() -> None:
    assert Rate(6, 60.0).burst == 10 and Rate(600, 60.0).burst == 100


def test_a_call_within_the_rate_does_not_wait() -> None:
    gate = Gate()
    assert [gate.call(most_s=0) for _ in range(10)] == [None] * 10


def test_sessions_take_turns() -> None:
    gate = Gate()
    for owner in (1, 2):
        for _ in range(10):
            gate.call(owner)
    gate.until(1.0)
    assert sorted(gate.passed[:5]) == [1, 1, 1, 2, 2]
    gate.until(3.0)
    assert gate.passed[-2:] in ([1, 2], [2, 1])


def test_the_second_half_of_a_burst_is_paced() -> None:
    gate = Gate()
    waits = [gate.call() is not None for _ in range(10)]
    assert waits == [False] * 5 + [True] * 5
    gate.until(5 * PAUSE_S)
    assert len(gate.passed) == 5


def test_what_waited_long_enough_is_refused_and_told_when_to_come_back() -> None:
    gate = Gate()
    for _ in range(12):
        gate.call(most_s=0.5)
    gate.until(0.6)
    [one, other] = gate.refused
    assert (one.kind, one.is_retryable, one.details["limit"]) == ("rate_limited", True, "server")
    gate.until(0.6 + other.details["retry_after_s"])
    assert gate.call(most_s=0) is None


def test_a_call_that_is_given_up_makes_room_for_the_next() -> None:
    gate = Gate()
    leaves = [gate.call(owner) for owner in range(1, 13)]
    gate.until(0.2)
    assert len(gate.limits) == 2
    leave = leaves[10]
    assert callable(leave)
    leave()
    gate.until(1.1)
    assert gate.passed[-1] == 12 and not gate.limits and not gate.refused


def test_each_limit_is_passed_once() -> None:
    gate = Gate()
    of_client = Limit(("client", 1), "client", Rate(1, 60.0))
    for _ in range(11):
        gate.call(1, of_client, OF_SERVER, most_s=0)
    gate.until(0.0)
    assert [failure.details["limit"] for failure in gate.refused] == ["client"]
    assert not gate.limits
