"""When there were too many deaths."""

from __future__ import annotations

from mcpd.core.lifecycle.tally import Tally


def test_so_many_within_the_window_are_too_many():
    tally = Tally(most=3, window=10)
    assert [tally.add(at) for at in (0, 4, 8)] == [False, False, True]


def test_old_deaths_do_not_count():
    tally = Tally(most=3, window=10)
    assert [tally.add(at) for at in (0, 4, 10, 13.9)] == [False, False, False, True]


def test_what_is_forgotten_does_not_count():
    tally = Tally(most=2, window=10)
    tally.add(0)
    tally.clear()
    assert not tally.add(1)
    assert tally.add(2)


def test_none_is_too_many_where_it_never_gives_up():
    tally = Tally(most=0, window=10)
    assert not any(tally.add(0) for _ in range(100))
