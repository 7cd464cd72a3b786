"""The time-outs of a call, and what suspends them."""

from __future__ import annotations

from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry, Settings
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.requests.calls import Calls
from mcpd.core.requests.inflight import End, Outcome, UpstreamRequest
from mcpd.ids import SlotId
from tests.unit.core.mux.world import Taker


class Clock:
    """One call with both time-outs, and the limit that it met."""

    def __init__(self) -> None:
        self.ctx = Context(Settings(version="1"), lambda name, known: [])
        entry = Entry(name="echo", launch="echo-1", call_timeout=10, call_timeout_max=25)
        self.calls = Calls(self.ctx, SlotId("echo-1"), entry)
        self.calls.begin()
        self.calls.open()
        self.limit: str | None = None

        self.call = UpstreamRequest(
            1, CLIENT_REQUESTS["tools/call"], b"{}", Taker(self._take), entry
        )
        self.calls.submit(self.call)
        self.timeouts = self.calls.timeouts

    def _take(self, outcome: Outcome) -> None:
        failure = outcome.failure
        self.limit = None if failure is None else failure.details["limit"]

    def wait(self, seconds: float) -> None:
        self.ctx.now += seconds
        self.ctx.run_due()


def test_time_goes_on_when_the_last_reason_is_gone() -> None:
    clock = Clock()
    clock.timeouts.suspend(clock.call)
    clock.timeouts.suspend(clock.call)
    clock.wait(100)
    clock.timeouts.resume(clock.call)
    clock.wait(100)
    assert clock.limit is None
    clock.timeouts.resume(clock.call)
    assert len(clock.timeouts) == 0
    clock.wait(9.9)
    assert clock.limit is None
    clock.wait(0.1)
    assert clock.limit == "call_timeout"


def test_the_absolute_limit_stands_still_as_well_and_does_not_begin_anew() -> None:
    clock = Clock()
    clock.wait(9)
    clock.timeouts.restart(clock.call)
    clock.wait(9)
    clock.timeouts.suspend(clock.call)
    clock.wait(100)
    clock.timeouts.resume(clock.call)
    clock.wait(6.9)
    assert clock.limit is None
    clock.wait(0.1)
    assert clock.limit == "call_timeout_max"


def test_progress_meanwhile_changes_nothing() -> None:
    clock = Clock()
    clock.timeouts.suspend(clock.call)
    clock.timeouts.restart(clock.call)
    clock.wait(100)
    assert clock.limit is None


def test_a_call_that_is_over_has_no_time_any_more() -> None:
    clock = Clock()
    clock.timeouts.suspend(clock.call)
    clock.calls.end(clock.call, Outcome(End.CANCELLED))
    clock.timeouts.resume(clock.call)
    clock.timeouts.suspend(clock.call)
    clock.timeouts.resume(clock.call)
    clock.wait(1000)
    assert clock.limit is None and clock.call.timer is None and clock.call.hard_timer is None
