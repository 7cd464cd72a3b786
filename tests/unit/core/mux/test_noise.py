"""What is said of lines that are no messages."""

from __future__ import annotations

from mcpd.core.mux.noise import NO_ID, Noise, unfinished


def test_nothing_is_said_where_nothing_came():
    noise = Noise()
    assert noise.since(0, 1) == ""
    noise.note(1.0, "not JSON-RPC", "before", 1)
    assert noise.since(2.0, 1) == ""


def test_lines_are_quoted_together_and_cut():
    noise = Noise()
    for text in ("{", '  "id": 3', "}"):
        noise.note(1.0, "no message", text, 0)
    assert noise.since(1.0, 1).endswith(': { "id": 3 }')
    noise.note(1.0, "no message", "x" * 5000, 1)
    assert len(noise.since(1.0, 1)) < 300


def test_an_error_without_an_id_is_said_before_all_else():
    noise = Noise()
    noise.note(1.0, "not JSON-RPC", "log", 1)
    noise.note(1.0, NO_ID, "boom", 1)
    noise.note(1.0, "not JSON-RPC", "log", 1)
    assert noise.since(1.0, 1) == f"; meanwhile it wrote {NO_ID}: boom"


def test_what_may_be_of_somebody_else_is_not_quoted():
    noise = Noise()
    noise.note(1.0, NO_ID, "secret", 2)
    noise.note(1.0, NO_ID, "secret", None)
    assert noise.since(1.0, 1) == f"; meanwhile it wrote {NO_ID}"


def test_a_line_that_has_not_ended_is_quoted_on_one_line():
    assert unfinished("{\n\r" + "x" * 500, 503).startswith("; meanwhile it wrote 503 bytes")
    assert "\n" not in unfinished("a\nb", 3)
