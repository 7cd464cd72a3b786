"""How long a start waits after failures."""

from __future__ import annotations

import pytest

from mcpd.core.lifecycle.backoff import delay


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 0.5), (2, 1), (3, 2), (4, 4), (6, 16), (7, 30), (99, 30)]
)
def test_it_doubles_up_to_a_cap(failures: int, seconds: float):
    assert delay(failures, first=0.5, most=30, roll=1.0) == seconds


@pytest.mark.parametrize("roll", [0.0, 0.25, 0.999])
def test_all_of_it_is_left_to_chance(roll: float):
    """
    Full jitter: servers that died of one cause do not come back in one instant.
    """
    assert delay(5, first=0.5, most=30, roll=roll) == pytest.approx(8 * roll)


def test_a_backoff_of_0_is_none():
    assert delay(5, first=0, most=30, roll=1.0) == 0


def test_thousands_of_failures_are_no_overflow():
    assert delay(100_000, first=0.5, most=30, roll=1.0) == 30
