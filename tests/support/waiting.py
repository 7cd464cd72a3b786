"""Waiting for an outcome without sleeping for it."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLOWNESS = float(os.environ.get("MCPD_TEST_SLOWNESS", "1"))
"""Stretches every time-out of the tests; above 1 on a slow or busy machine."""

FIRST_LOOK_S = 0.001
LONGEST_PAUSE_S = 0.02


def scaled(seconds: float) -> float:
    """Return ``seconds`` as this machine should take them."""
    return seconds * SLOWNESS


def wait_until(
    condition: Callable[[], T], timeout: float = 5.0, *, what: str | Callable[[], str] = "condition"
) -> T:
    """Return the first true value of ``condition()``, looked at every few milliseconds.

    ``timeout`` is in seconds, scaled by ``MCPD_TEST_SLOWNESS``. Raises ``AssertionError`` that
    tells ``what`` was waited for and the last value seen.
    """
    deadline = time.monotonic() + scaled(timeout)
    pause = FIRST_LOOK_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(_complaint(timeout, what, value))
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S)


async def wait_until_async(
    condition: Callable[[], T], timeout: float = 5.0, *, what: str | Callable[[], str] = "condition"
) -> T:
    """Do what ``wait_until`` does, and let the loop run in between."""
    deadline = time.monotonic() + scaled(timeout)
    pause = FIRST_LOOK_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(_complaint(timeout, what, value))
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S)


def can_read(fd: int, timeout: float = 0.0) -> bool:
    """Wait, ``timeout`` seconds at most, until there is something to read; tell whether there is.

    Unlike select(2) for any descriptor: a test with many connections has some beyond 1023.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout) * 1000))


def _complaint(timeout: float, what: str | Callable[[], str], value: object) -> str:
    told = what() if callable(what) else what
    return f"waited {scaled(timeout):g} s for {told}; last value: {value!r}"
