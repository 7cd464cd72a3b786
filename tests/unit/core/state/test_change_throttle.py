"""How often one listener is told that a list is another one."""

from __future__ import annotations

import itertools

from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Settings
from mcpd.core.state.change_throttle import CHANGES_EVERY, ChangeThrottle


class Clock:
    """A listener of two kinds of notices, and the time."""

    def __init__(self) -> None:
        self.context = Context(Settings(version="1"), lambda name, known: [])
        self.changes = ChangeThrottle()
        self.told: list[tuple[float, str]] = []

    def change(self, notice: str = "tools") -> None:
        def send() -> None:
            self.told.append((self.context.now, notice))

        self.changes.tell(self.context, notice, send)

    def wait(self, seconds: float) -> None:
        until = self.context.now + seconds
        while (due := self.context.next_deadline()) is not None and due <= until:
            self.context.now = due
            self.context.run_due()
        self.context.now = until


def test_the_first_is_told_at_once_and_a_burst_after_it_is_one_more():
    clock = Clock()
    for _ in range(20):
        clock.change()
    assert clock.told == [(0.0, "tools")]
    clock.wait(5)
    assert clock.told == [(0.0, "tools"), (CHANGES_EVERY, "tools")]


def test_there_are_four_in_a_second_at_most():
    clock = Clock()
    for _ in range(200):
        clock.change()
        clock.wait(0.01)
    clock.wait(1)
    times = [at for at, _ in clock.told]
    assert len(times) == 9
    assert all(b - a >= CHANGES_EVERY - 1e-9 for a, b in itertools.pairwise(times))


def test_each_kind_has_its_own_clock():
    clock = Clock()
    clock.change("tools")
    clock.change("prompts")
    assert clock.told == [(0.0, "tools"), (0.0, "prompts")]


def test_who_is_gone_is_told_nothing_more():
    clock = Clock()
    clock.change()
    clock.change()
    clock.changes.stop()
    clock.wait(5)
    assert len(clock.told) == 1
    assert clock.context.next_deadline() is None
