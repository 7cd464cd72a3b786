"""Whatever hostile peers say, others get their answers, in time, and nothing of it is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.property.hostile import http
from tests.property.hostile.core import Run, steps
from tests.property.hostile.daemon import storm
from tests.property.hostile.strategies import Burst
from tests.support.waiting import scaled

P99_S = 0.05


def test_the_core_reacts_in_time_to_whatever_peers_say() -> None:
    """
    `make hostile` goes on for a million messages.
    """
    run = Run()

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    )
    @given(st.lists(steps, min_size=2, max_size=15))
    @example([Burst("bad", "ask", 100, 1), Burst("1", "reply", 100, 1), ("leave", "1")])
    def attempt(some: list[Any]) -> None:
        run.one(some)

    attempt()
    assert run.percentile(0.99) < scaled(P99_S), run.slowest


@pytest.mark.slow
def test_a_daemon_serves_good_sessions_among_hostile_peers() -> None:
    """
    None of its servers but theirs ends, and its memory stays within its bounds.
    """
    storm(4000, 1)


def test_a_daemon_serves_good_sessions_among_hostile_http_clients() -> None:
    """
    `make hostile-http` goes on for a million requests.
    """
    http.storm(1500, 1)
