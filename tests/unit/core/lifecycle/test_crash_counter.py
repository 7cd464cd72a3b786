"""When there were too many crashes."""

from __future__ import annotations

from mcpd.core.lifecycle.crash_counter import CrashCounter


def test_crashes_within_the_window_are_counted():
    crashes = CrashCounter(most=3, window=10)
    assert [crashes.add(at) for at in (0, 4, 8)] == [False, False, True]


def test_old_crashes_do_not_count():
    crashes = CrashCounter(most=3, window=10)
    assert [crashes.add(at) for at in (0, 4, 10, 13.9)] == [False, False, False, True]


def test_cleared_crashes_do_not_count():
    crashes = CrashCounter(most=2, window=10)
    crashes.add(0)
    crashes.clear()
    assert not crashes.add(1)
    assert crashes.add(2)


def test_a_limit_of_0_allows_any_number():
    crashes = CrashCounter(most=0, window=10)
    assert not any(crashes.add(0) for _ in range(100))
