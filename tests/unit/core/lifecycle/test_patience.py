"""How long a start may take."""

from __future__ import annotations

from mcpd.core.lifecycle.patience import MOST_LAUNCHES, Patience, Patiences


def limits(patience: Patience, count: int, *, first: float = 30, most: float = 300) -> list[float]:
    """Return what that many starts get that all run out of time."""
    found = []
    for _ in range(count):
        found.append(patience.limit(first=first, most=most))
        patience.ran_out(found[-1])
    return found


def test_each_further_start_gets_twice_the_time_up_to_the_most():
    """
    B023: the same time once more would never be enough, for what was installed is lost.
    """
    assert limits(Patience(), 6) == [30, 60, 120, 240, 300, 300]


def test_it_is_never_less_than_the_first():
    assert limits(Patience(), 3, first=30, most=10) == [30, 30, 30]


def test_no_limit_is_no_limit():
    assert Patience().limit(first=0, most=300) == 0


def test_it_begins_anew_after_a_success():
    patience = Patience()
    limits(patience, 3)
    patience.reset()
    assert limits(patience, 2) == [30, 60]


def test_starts_side_by_side_that_had_the_same_time_are_one_lesson():
    """
    A session each, all with the same cold cache.
    """
    patience = Patience()
    for _ in range(10):
        patience.ran_out(30)
    assert patience.limit(first=30, most=300) == 60


def test_a_shorter_time_that_ran_out_later_teaches_nothing():
    patience = Patience()
    patience.ran_out(60)
    patience.ran_out(30)
    assert patience.limit(first=30, most=300) == 120


def test_all_places_of_a_launch_have_one_and_other_launches_another():
    patiences = Patiences()
    patiences.of("a").ran_out(30)
    assert patiences.of("a").limit(first=30, most=300) == 60
    assert patiences.of("b").limit(first=30, most=300) == 30


def test_launches_that_nobody_asked_for_in_a_long_time_are_forgotten():
    """
    Ad-hoc servers come and go: the table must not grow for ever.
    """
    patiences = Patiences()
    patiences.of("old").ran_out(30)
    for number in range(MOST_LAUNCHES - 1):
        patiences.of(str(number))
    assert patiences.of("old").limit(first=30, most=300) == 60
    for number in range(MOST_LAUNCHES):
        patiences.of(str(number))
    assert patiences.of("old").limit(first=30, most=300) == 30
