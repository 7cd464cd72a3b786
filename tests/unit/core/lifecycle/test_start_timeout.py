"""How long a start may take."""

from __future__ import annotations

from mcpd.core.lifecycle.start_timeout import MOST_LAUNCHES, StartTimeout, StartTimeouts


def limits(
    start_timeout: StartTimeout, count: int, *, first: float = 30, most: float = 300
) -> list[float]:
    """Return the limits of ``count`` starts that all time out."""
    found = []
    for _ in range(count):
        found.append(start_timeout.next_limit(first=first, most=most))
        start_timeout.record(found[-1])
    return found


def test_each_further_start_gets_twice_the_time_up_to_the_most():
    """
    B023: the same time once more would never be enough, for what was installed is lost.
    """
    assert limits(StartTimeout(), 6) == [30, 60, 120, 240, 300, 300]


def test_it_is_never_less_than_the_first():
    assert limits(StartTimeout(), 3, first=30, most=10) == [30, 30, 30]


def test_no_limit_is_no_limit():
    assert StartTimeout().next_limit(first=0, most=300) == 0


def test_a_success_brings_the_first_limit_back():
    start_timeout = StartTimeout()
    limits(start_timeout, 3)
    start_timeout.reset()
    assert limits(start_timeout, 2) == [30, 60]


def test_concurrent_starts_with_the_same_limit_double_it_once():
    """
    A session each, all with the same cold cache.
    """
    start_timeout = StartTimeout()
    for _ in range(10):
        start_timeout.record(30)
    assert start_timeout.next_limit(first=30, most=300) == 60


def test_a_shorter_limit_that_timed_out_later_changes_nothing():
    start_timeout = StartTimeout()
    start_timeout.record(60)
    start_timeout.record(30)
    assert start_timeout.next_limit(first=30, most=300) == 120


def test_each_launch_has_its_own():
    timeouts = StartTimeouts()
    timeouts.of("a").record(30)
    assert timeouts.of("a").next_limit(first=30, most=300) == 60
    assert timeouts.of("b").next_limit(first=30, most=300) == 30


def test_the_least_recently_used_launches_are_forgotten():
    """
    Ad-hoc servers come and go: the table must not grow for ever.
    """
    timeouts = StartTimeouts()
    timeouts.of("old").record(30)
    for number in range(MOST_LAUNCHES - 1):
        timeouts.of(str(number))
    assert timeouts.of("old").next_limit(first=30, most=300) == 60
    for number in range(MOST_LAUNCHES):
        timeouts.of(str(number))
    assert timeouts.of("old").next_limit(first=30, most=300) == 30
