"""Timers and output of one event."""

from __future__ import annotations

from mcpd.core.facts import ServerWarning
from mcpd.core.mux.commands import Tell, Want
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Settings
from mcpd.ids import SlotId


def effects() -> Effects:
    return Effects(Settings(version="1"), lambda name, known: [])


def test_what_is_asked_for_comes_out_in_order():
    fx = effects()
    fx.emit(Want(SlotId("a")))
    fx.tell(ServerWarning("a", "odd"))
    assert fx.commands == [Want(SlotId("a")), Tell(ServerWarning("a", "odd"))]


def test_timers_go_off_in_their_order():
    fx, done = effects(), list[str]()
    fx.now = 10.0
    fx.after(2.0, lambda: done.append("later"))
    fx.after(1.0, lambda: done.append("sooner"))
    fx.after(1.0, lambda: done.append("as soon, and after it"))
    assert fx.next_deadline() == 11.0
    fx.run_due()
    assert done == []
    fx.now = 12.0
    fx.run_due()
    assert done == ["sooner", "as soon, and after it", "later"]
    assert fx.next_deadline() is None


def test_a_timer_may_set_another():
    fx, done = effects(), list[float]()

    def again() -> None:
        done.append(fx.now)
        if len(done) < 3:
            fx.after(0.0, again)

    fx.after(0.0, again)
    fx.run_due()
    assert done == [0.0, 0.0, 0.0]


def test_what_was_called_off_does_not_go_off():
    fx, done = effects(), list[str]()
    first, second = fx.after(1.0, lambda: done.append("x")), fx.after(2.0, lambda: done.append("y"))
    first.cancel()
    first.cancel()
    assert fx.next_deadline() == 2.0
    second.cancel()
    assert fx.next_deadline() is None
    fx.now = 5.0
    fx.run_due()
    assert done == []


def test_timers_that_were_called_off_are_not_kept():
    """
    Every call with a time-out sets one for a day.
    """
    fx, done = effects(), list[str]()
    fx.after(50_000.0, lambda: done.append("kept"))
    for _ in range(10_000):
        fx.after(86_400.0, lambda: done.append("no")).cancel()
    assert fx.timer_count() < 200
    fx.now = 100_000.0
    fx.run_due()
    assert done == ["kept"]


def test_a_timer_that_went_off_can_be_called_off():
    fx = effects()
    timers = [fx.after(0.0, lambda: None) for _ in range(100)]
    fx.run_due()
    for timer in timers:
        timer.cancel()
    fx.after(1.0, lambda: None)
    assert fx.timer_count() == 1
    assert fx.next_deadline() == 1.0
