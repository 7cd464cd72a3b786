"""The daemon's own time, on a loop whose clock is a number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from mcpd.daemon.clock import IN_A_ROW, LATE_S, Clock


class Handle:
    def __init__(self, at: float, act: Callable[[], None]) -> None:
        self.at, self.act, self.is_cancelled = at, act, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """A loop as far as a clock needs one; ``to_read`` is done between timers, as I/O is."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.handles: list[Handle] = []
        self.to_read: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.clock

    def call_at(self, at: float, act: Callable[[], None]) -> Handle:
        self.handles.append(Handle(at, act))
        return self.handles[-1]

    def turn(self) -> bool:
        """Call the timers that are due, then read; say whether there was anything to do."""
        due = [h for h in self.handles if h.at <= self.clock and not h.is_cancelled]
        self.handles = [h for h in self.handles if h not in due and not h.is_cancelled]
        reads, self.to_read = self.to_read, []
        for act in (*(h.act for h in due), *reads):
            act()
        return bool(due or reads)

    def run(self, seconds: float) -> None:
        """Live through so many seconds, with nothing late."""
        until = self.clock + seconds
        while True:
            while self.turn():
                self.clock += 0.0001
            waiting = [h.at for h in self.handles if not h.is_cancelled]
            if not waiting or min(waiting) > until:
                break
            self.clock = max(self.clock, min(waiting))
        self.clock = max(self.clock, until)

    def stop(self, seconds: float) -> None:
        """Live through none of so many seconds."""
        self.clock += seconds


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def gaps() -> list[float]:
    return []


@pytest.fixture
def clock(loop: Loop, gaps: list[float]) -> Clock:
    return Clock(cast(asyncio.AbstractEventLoop, loop), on_gap=gaps.append)


def test_it_follows_the_time_of_the_loop_and_calls_in_time(loop: Loop, clock: Clock) -> None:
    rung: list[float] = []
    began = clock.now()
    clock.call_at(began + 10, lambda: rung.append(clock.now() - began))
    loop.run(9.9)
    assert not rung
    loop.run(0.2)
    assert rung == [pytest.approx(10, abs=0.01)]
    assert clock.now() - began == pytest.approx(10.1, abs=0.01)


def test_setting_the_timer_replaces_the_one_before(loop: Loop, clock: Clock) -> None:
    rung: list[str] = []
    clock.call_at(clock.now() + 10, lambda: rung.append("late"))
    clock.call_at(clock.now() + 1, lambda: rung.append("soon"))
    loop.run(20)
    assert rung == ["soon"]
    clock.call_at(clock.now() + 1, lambda: rung.append("never"))
    clock.cancel()
    loop.run(20)
    assert rung == ["soon"]


@pytest.mark.parametrize("hours", [0.01, 6])
def test_time_in_which_the_daemon_did_not_run_is_subtracted(
    loop: Loop, clock: Clock, gaps: list[float], hours: float
) -> None:
    """
    B154: the daemon was stopped, or the machine slept, and everything was overdue at once.
    """
    rung: list[float] = []
    began = clock.now()
    clock.call_at(began + 10, lambda: rung.append(clock.now() - began))
    loop.run(4)
    clock.now()
    loop.stop(hours * 3600)
    assert clock.now() - began == pytest.approx(4)
    assert gaps == [pytest.approx(hours * 3600)]
    loop.run(5.9)
    assert not rung
    loop.run(0.2)
    assert rung == [pytest.approx(10, abs=0.01)]


def test_the_timer_notices_a_gap_without_a_call_of_now(
    loop: Loop, clock: Clock, gaps: list[float]
) -> None:
    rung: list[float] = []
    clock.call_at(clock.now() + 10, lambda: rung.append(clock.now()))
    loop.stop(3600)
    loop.run(9.9)
    assert gaps
    assert not rung
    loop.run(0.2)
    assert rung


def test_deadlines_keep_their_distance_across_a_gap(loop: Loop, clock: Clock) -> None:
    """
    B154: no storm; each thing keeps its distance to the next.
    """
    began = clock.now()
    due = [began + 1, began + 2, began + 3]
    done: list[float] = []

    def arm() -> None:
        if due:
            clock.call_at(due[0], tick)

    def tick() -> None:
        while due and due[0] <= clock.now():
            done.append(clock.now() - due.pop(0))
        arm()

    arm()
    loop.stop(6 * 3600)
    loop.run(0.9)
    assert not done
    for count in (1, 2, 3):
        loop.run(0.2)
        assert len(done) == count
        loop.run(0.8)


def test_after_a_delay_what_can_be_read_is_read_first(loop: Loop, clock: Clock) -> None:
    """
    An answer that came in time is no time-out because we were late to look.
    """
    order: list[str] = []
    clock.call_at(clock.now() + 1, lambda: order.append("timer"))
    loop.stop(1 + LATE_S / 2)
    loop.to_read.append(lambda: order.append("read"))
    loop.run(1)
    assert order == ["read", "timer"]


def test_deadlines_pass_also_where_every_timer_is_late(loop: Loop, clock: Clock) -> None:
    """
    A machine that never has time for us gets a few times the time, not all of it.
    """
    rung: list[float] = []
    clock.call_at(clock.now() + 5, lambda: rung.append(1))
    for _ in range(IN_A_ROW + 1):
        assert not rung
        loop.stop(5 + 2 * LATE_S)
        loop.turn()
    loop.run(0.1)
    assert rung


def test_a_timer_in_time_resets_the_count_of_late_ones(
    loop: Loop, clock: Clock, gaps: list[float]
) -> None:
    for _ in range(3 * IN_A_ROW):
        rung: list[float] = []
        clock.call_at(clock.now() + 5, lambda rung=rung: rung.append(1))  # type: ignore[misc]
        loop.stop(3600)
        loop.run(4.9)
        assert not rung
        loop.run(0.2)
        assert rung
    assert gaps == [pytest.approx(3600, abs=1)] * (3 * IN_A_ROW)


def test_a_wall_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    B154: six hours ahead, one back; nothing in the daemon looks at it to decide.
    """
    import time

    async def live() -> None:
        clock = Clock(asyncio.get_running_loop(), on_gap=lambda _: pytest.fail("no gap"))
        began = clock.now()
        real = time.time
        for step in (6 * 3600, -3600):
            monkeypatch.setattr(time, "time", lambda step=step: real() + step)
            rung = asyncio.get_running_loop().create_future()
            clock.call_at(clock.now() + 0.02, lambda rung=rung: cast(Any, rung).set_result(None))
            await asyncio.wait_for(rung, 10)
            assert began < clock.now() < began + 60

    asyncio.run(live())
