"""The line about how things are; when it is told is in ``faults``."""

from __future__ import annotations

import pytest

from mcpd.daemon.upkeep.manager_status import summary


@pytest.mark.parametrize(
    ("states", "servers", "sessions", "text"),
    [
        ([], 0, 0, "0 servers: none runs; 0 sessions"),
        (["ready"], 1, 1, "1 server: 1 ready; 1 session"),
        ([""], 1, 0, "1 server: none runs; 0 sessions"),
        (
            ["failed", "ready", "", "ready", "starting", "ready"],
            6,
            7,
            "6 servers: 3 ready, 1 starting, 1 failed; 7 sessions",
        ),
        (["stopping", "backoff"], 2, 0, "2 servers: 1 backoff, 1 stopping; 0 sessions"),
    ],
)
def test_the_status_line_counts_servers_states_and_sessions(
    states: list[str], servers: int, sessions: int, text: str
):
    assert summary(states, servers, sessions) == text
