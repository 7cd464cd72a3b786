"""Timers and output of one event."""

from __future__ import annotations

from mcpd.core.facts import FactsOmitted, FrameRejected, ServerNoise, ServerWarning
from mcpd.core.mux.commands import Tell, Want
from mcpd.core.mux.effects import TOLD_PER_S, Effects
from mcpd.core.mux.entries import Settings
from mcpd.ids import SessionId, SlotId


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
    assert len(fx._timers) < 200
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
    assert len(fx._timers) == 1
    assert fx.next_deadline() == 1.0


def test_what_a_peer_can_cause_at_any_rate_is_told_so_often_in_a_second_and_then_counted():
    """
    A server wrote a line of noise for each of a million lines of noise.
    """
    fx, noise = effects(), ServerNoise("a", "junk", "x", False)
    for _ in range(1000):
        fx.tell(noise)
    fx.tell(ServerNoise("b", "junk", "x", False))
    fx.tell(ServerWarning("a", "odd"))
    assert len(fx.commands) == TOLD_PER_S + 2
    fx.commands.clear()
    fx.now = 1.0
    fx.run_due()
    assert fx.commands == [Tell(FactsOmitted("ServerNoise", 1000 - TOLD_PER_S, server="a"))]
    assert fx.next_deadline() is None
    fx.tell(noise)
    assert fx.commands[1:] == [Tell(noise)]


def test_rejected_frames_are_counted_for_each_session():
    fx = effects()
    for session in (SessionId(1), SessionId(2)):
        for _ in range(TOLD_PER_S + session):
            fx.tell(FrameRejected(session, "not JSON"))
    fx.commands.clear()
    fx.now = 1.0
    fx.run_due()
    assert fx.commands == [
        Tell(FactsOmitted("FrameRejected", 1, session=SessionId(1))),
        Tell(FactsOmitted("FrameRejected", 2, session=SessionId(2))),
    ]
