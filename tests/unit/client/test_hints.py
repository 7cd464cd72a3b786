"""What to type about a silence."""

from __future__ import annotations

from mcpd.client.hints import advice
from mcpd.errors import DaemonUnavailable


def test_each_kind_of_silence_has_its_advice() -> None:
    assert advice(DaemonUnavailable("x", why="absent")) == ["to start it: mcpctl up"]
    assert "--socket" in advice(DaemonUnavailable("x", why="not_ours"))[0]


def test_the_errors_own_hint_comes_first_and_once() -> None:
    own = DaemonUnavailable("x", hint="chmod 700 /d", why="exposed")
    assert advice(own)[0] == "chmod 700 /d"
    assert len(advice(own)) == 2
    assert len(advice(DaemonUnavailable("x", hint="mcpctl up", why="absent"))) == 1


def test_where_nothing_is_known_to_help_nothing_is_said() -> None:
    assert advice(DaemonUnavailable("x", why="something new")) == []
    assert advice(DaemonUnavailable("x")) == []
