"""How long the answers are waited for that are missing when the client has ended its input."""

from __future__ import annotations

import time

from mcpd.bridge.linger import Linger


def test_the_time_runs_once_the_server_is_ready():
    states = [True, True, False]
    linger = Linger(5.0, lambda _: states.pop(0))
    linger.begin()
    now = time.monotonic()
    for step in range(3):
        assert not linger.is_over(now + step, "files", is_behind=False)
    assert states == []
    ends_at = linger.next_at(now)
    assert 4.9 < ends_at - now < 6
    assert not linger.is_over(ends_at - 0.1, "files", is_behind=False)
    assert linger.is_over(ends_at, "files", is_behind=False)


def test_it_is_not_asked_again_and_again_whether_the_server_is_ready():
    asked: list[str | None] = []

    def is_starting(server: str | None) -> bool:
        asked.append(server)
        return True

    linger = Linger(5.0, is_starting)
    linger.begin()
    now = time.monotonic()
    for _ in range(10):
        assert not linger.is_over(now, None, is_behind=False)
    assert asked == [None]


def test_it_does_not_run_while_the_client_is_late():
    linger = Linger(5.0, lambda _: False)
    linger.begin()
    now = time.monotonic()
    assert not linger.is_over(now, None, is_behind=True)
    assert not linger.is_over(now + 100, None, is_behind=True)
    assert not linger.is_over(now + 104, None, is_behind=False)
    assert linger.is_over(now + 105, None, is_behind=False)


def test_with_another_daemon_it_begins_anew():
    linger = Linger(0.0, lambda _: False)
    linger.begin()
    now = time.monotonic()
    assert not linger.is_over(now, None, is_behind=False)
    linger.restart()
    assert not linger.is_over(now + 1, None, is_behind=False)
    assert linger.is_over(now + 2, None, is_behind=False)


def test_a_server_that_never_starts_does_not_keep_it_for_ever():
    linger = Linger(1.0, lambda _: True)
    linger.begin()
    now = time.monotonic()
    assert not linger.is_over(now, None, is_behind=False)
    assert not linger.is_over(now + 400, None, is_behind=False)
    assert linger.is_over(now + 400, None, is_behind=False)
