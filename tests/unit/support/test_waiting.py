"""Waiting returns at once when it can and complains with what it saw when it cannot."""

from __future__ import annotations

import pytest

from tests.support.waiting import wait_until, wait_until_async


def test_the_first_true_value_is_returned():
    values = iter([0, None, "", "here"])
    assert wait_until(lambda: next(values)) == "here"


def test_the_complaint_names_what_was_awaited_and_the_last_value():
    with pytest.raises(AssertionError, match=r"for the moon; last value: 0"):
        wait_until(lambda: 0, 0.01, what="the moon")


async def test_the_loop_runs_while_a_coroutine_waits():
    values = iter([0, 1])
    assert await wait_until_async(lambda: next(values)) == 1
    with pytest.raises(AssertionError, match="the sun"):
        await wait_until_async(lambda: 0, 0.01, what=lambda: "the sun")
