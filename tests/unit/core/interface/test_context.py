"""Timers and output of one event."""

from __future__ import annotations

from mcpd.core.facts import FactsOmitted, FrameRejected, ServerNoise, ServerWarning
from mcpd.core.interface.commands import Tell, Want
from mcpd.core.interface.context import TOLD_PER_S, Context
from mcpd.core.interface.entries import Settings
from mcpd.ids import SessionId, SlotId


def context() -> Context:
    return Context(Settings(version="1"), lambda name, known: [])


def test_what_is_asked_for_comes_out_in_order():
    ctx = context()
    ctx.emit(Want(SlotId("a")))
    ctx.tell(ServerWarning("a", "odd"))
    assert ctx.commands == [Want(SlotId("a")), Tell(ServerWarning("a", "odd"))]


def test_timers_go_off_in_their_order():
    ctx, done = context(), list[str]()
    ctx.now = 10.0
    ctx.after(2.0, lambda: done.append("later"))
    ctx.after(1.0, lambda: done.append("sooner"))
    ctx.after(1.0, lambda: done.append("as soon, and after it"))
    assert ctx.next_deadline() == 11.0
    ctx.run_due()
    assert done == []
    ctx.now = 12.0
    ctx.run_due()
    assert done == ["sooner", "as soon, and after it", "later"]
    assert ctx.next_deadline() is None


def test_a_timer_may_set_another():
    ctx, done = context(), list[float]()

    def again() -> None:
        done.append(ctx.now)
        if len(done) < 3:
            ctx.after(0.0, again)

    ctx.after(0.0, again)
    ctx.run_due()
    assert done == [0.0, 0.0, 0.0]


def test_what_was_called_off_does_not_go_off():
    ctx, done = context(), list[str]()
    first, second = (
        ctx.after(1.0, lambda: done.append("x")),
        ctx.after(2.0, lambda: done.append("y")),
    )
    first.cancel()
    first.cancel()
    assert ctx.next_deadline() == 2.0
    second.cancel()
    assert ctx.next_deadline() is None
    ctx.now = 5.0
    ctx.run_due()
    assert done == []


def test_timers_that_were_called_off_are_not_kept():
    """
    Every call with a time-out sets one for a day.
    """
    ctx, done = context(), list[str]()
    ctx.after(50_000.0, lambda: done.append("kept"))
    for _ in range(10_000):
        ctx.after(86_400.0, lambda: done.append("no")).cancel()
    assert len(ctx._timers) < 200
    ctx.now = 100_000.0
    ctx.run_due()
    assert done == ["kept"]


def test_a_timer_that_went_off_can_be_called_off():
    ctx = context()
    timers = [ctx.after(0.0, lambda: None) for _ in range(100)]
    ctx.run_due()
    for timer in timers:
        timer.cancel()
    ctx.after(1.0, lambda: None)
    assert len(ctx._timers) == 1
    assert ctx.next_deadline() == 1.0


def test_what_a_peer_can_cause_at_any_rate_is_told_so_often_in_a_second_and_then_counted():
    """
    A server wrote a line of noise for each of a million lines of noise.
    """
    ctx, noise = context(), ServerNoise("a", "junk", "x", False)
    for _ in range(1000):
        ctx.tell(noise)
    ctx.tell(ServerNoise("b", "junk", "x", False))
    ctx.tell(ServerWarning("a", "odd"))
    assert len(ctx.commands) == TOLD_PER_S + 2
    ctx.commands.clear()
    ctx.now = 1.0
    ctx.run_due()
    assert ctx.commands == [Tell(FactsOmitted("ServerNoise", 1000 - TOLD_PER_S, server="a"))]
    assert ctx.next_deadline() is None
    ctx.tell(noise)
    assert ctx.commands[1:] == [Tell(noise)]


def test_rejected_frames_are_counted_for_each_session():
    ctx = context()
    for session in (SessionId(1), SessionId(2)):
        for _ in range(TOLD_PER_S + session):
            ctx.tell(FrameRejected(session, "not JSON"))
    ctx.commands.clear()
    ctx.now = 1.0
    ctx.run_due()
    assert ctx.commands == [
        Tell(FactsOmitted("FrameRejected", 1, session=SessionId(1))),
        Tell(FactsOmitted("FrameRejected", 2, session=SessionId(2))),
    ]
