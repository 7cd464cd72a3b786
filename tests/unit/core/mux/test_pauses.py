"""What keeps a call's time from passing."""

from __future__ import annotations

from mcpd.core.facts import Failure
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Entry, Settings
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.pauses import Pauses
from mcpd.core.mux.requests import Requests
from mcpd.ids import SlotId


class Clock:
    """One call with both time-outs, and the limit that it met."""

    def __init__(self) -> None:
        self.fx = Effects(Settings(version="1"), lambda name, known: [])
        entry = Entry(name="echo", launch="echo-1", call_timeout=10, call_timeout_max=25)
        self.requests = Requests(self.fx, SlotId("echo-1"), entry)
        self.requests.begin()
        self.requests.open()
        self.limit: str | None = None

        def done(_: Pending, result: object, error: object, failure: Failure | None) -> None:
            self.limit = None if failure is None else failure.details["limit"]

        self.call = Pending(1, CLIENT_REQUESTS["tools/call"], b"{}", done, entry=entry)
        self.requests.submit(self.call)
        self.pauses = Pauses()

    def wait(self, seconds: float) -> None:
        self.fx.now += seconds
        self.fx.run_due()


def test_time_goes_on_when_the_last_reason_is_gone() -> None:
    clock = Clock()
    clock.pauses.stop(clock.requests, clock.call)
    clock.pauses.stop(clock.requests, clock.call)
    clock.wait(100)
    clock.pauses.go_on(clock.requests, clock.call)
    clock.wait(100)
    assert clock.limit is None
    clock.pauses.go_on(clock.requests, clock.call)
    assert len(clock.pauses) == 0
    clock.wait(9.9)
    assert clock.limit is None
    clock.wait(0.1)
    assert clock.limit == "call_timeout"


def test_the_absolute_limit_stands_still_as_well_and_does_not_begin_anew() -> None:
    clock = Clock()
    clock.wait(9)
    clock.requests.restart_timer(clock.call)
    clock.wait(9)
    clock.pauses.stop(clock.requests, clock.call)
    clock.wait(100)
    clock.pauses.go_on(clock.requests, clock.call)
    clock.wait(6.9)
    assert clock.limit is None
    clock.wait(0.1)
    assert clock.limit == "call_timeout_max"


def test_progress_meanwhile_changes_nothing() -> None:
    clock = Clock()
    clock.pauses.stop(clock.requests, clock.call)
    clock.requests.restart_timer(clock.call)
    clock.wait(100)
    assert clock.limit is None


def test_a_call_that_is_over_has_no_time_any_more() -> None:
    clock = Clock()
    clock.pauses.stop(clock.requests, clock.call)
    clock.requests.cancel(clock.call)
    clock.pauses.go_on(clock.requests, clock.call)
    clock.pauses.stop(clock.requests, clock.call)
    clock.pauses.go_on(clock.requests, clock.call)
    clock.wait(1000)
    assert clock.limit is None and clock.fx.next_deadline() is None
