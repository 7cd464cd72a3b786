"""The backoff between restarts: exponential, capped, with full jitter."""

from __future__ import annotations


def delay(failures: int, *, first: float, most: float, roll: float) -> float:
    """Return the seconds to wait after ``failures`` failures in a row.

    ``roll`` is a random number in [0, 1): full jitter spreads the restarts of servers that died
    for the same reason.
    """
    if failures <= 0 or first <= 0:
        return 0.0
    ceiling = min(most, first * 2.0 ** min(failures - 1, 60))
    return ceiling * roll
