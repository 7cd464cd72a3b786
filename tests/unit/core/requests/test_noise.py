"""What is said of lines that are no messages."""

from __future__ import annotations

from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry, Settings
from mcpd.core.requests.noise import NO_ID, Noise, unfinished
from mcpd.core.requests.process import Process
from mcpd.ids import SlotId


def made() -> Noise:
    """Return the noise of a process, one second after the beginning."""
    ctx = Context(Settings(version="1"), lambda name, known: [])
    ctx.now = 1.0
    return Noise(ctx, Process(SlotId("echo-1"), Entry(name="echo", launch="echo-1")))


def test_nothing_is_said_where_nothing_came():
    noise = made()
    assert noise.since(0, 1) == ""
    noise.note("not JSON-RPC", "before", 1)
    assert noise.since(2.0, 1) == ""


def test_lines_are_quoted_together_and_cut():
    noise = made()
    for text in ("{", '  "id": 3', "}"):
        noise.note("no message", text, 0)
    assert noise.since(1.0, 1).endswith(': { "id": 3 }')
    noise.note("no message", "x" * 5000, 1)
    assert len(noise.since(1.0, 1)) < 300


def test_an_error_without_an_id_is_said_before_all_else():
    noise = made()
    noise.note("not JSON-RPC", "log", 1)
    noise.note(NO_ID, "boom", 1)
    noise.note("not JSON-RPC", "log", 1)
    assert noise.since(1.0, 1) == f"; meanwhile it wrote {NO_ID}: boom"


def test_what_may_be_of_somebody_else_is_not_quoted():
    noise = made()
    noise.note(NO_ID, "secret", 2)
    noise.note(NO_ID, "secret", None)
    assert noise.since(1.0, 1) == f"; meanwhile it wrote {NO_ID}"


def test_a_line_that_has_not_ended_is_quoted_on_one_line():
    assert unfinished("{\n\r" + "x" * 500, 503).startswith("; meanwhile it wrote 503 bytes")
    assert "\n" not in unfinished("a\nb", 3)
