"""The words that are numbers in the file."""

from __future__ import annotations

import pytest

from mcpd.audit.record import OUTCOMES, flags_of, outcome_of
from mcpd.core.requests.inflight import End


@pytest.mark.parametrize(
    ("end", "kind", "outcome"),
    [
        (End.ANSWERED, None, "ok"),
        (End.ERROR, None, "error"),
        (End.FAILED, "server_busy", "error"),
        (End.FAILED, "server_crashed", "crashed"),
        (End.LOST, None, "crashed"),
        (End.TIMED_OUT, "call_timeout", "timeout"),
        (End.REFUSED, "call_timeout", "timeout"),
        (End.CANCELLED, None, "cancelled"),
        (End.REFUSED, "denied", "denied"),
        (End.REFUSED, "approval_required", "denied"),
        (End.REFUSED, "rate_limited", "denied"),
        (End.REFUSED, "tool_not_found", "error"),
    ],
)
def test_each_end_has_an_outcome(end: End, kind: str | None, outcome: str) -> None:
    assert OUTCOMES[outcome_of(end.value, kind)] == outcome


def test_flags_have_names() -> None:
    assert flags_of(0) == []
    assert flags_of(0b10001) == ["retried", "queued"]
