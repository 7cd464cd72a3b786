from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator

import pytest

from mcpd.supervise import descriptors


@pytest.fixture
def soft() -> Iterator[int]:
    """A soft limit that is lower than the hard one, for the time of a test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = before[0] - 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, before[1]))
    yield low
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_both_limits_are_told_and_what_is_open(soft: int):
    """B155."""
    before = descriptors.limits()
    reading, writing = os.pipe()
    after = descriptors.limits()
    os.close(reading)
    os.close(writing)
    assert (before["soft"], before["hard"]) == (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert before["open"] is not None
    assert after["open"] == before["open"] + 2


def test_some_are_kept_back(soft: int, monkeypatch: pytest.MonkeyPatch):
    assert descriptors.usable() == soft - descriptors.KEPT_BACK
    assert descriptors.usable_for_control() == soft - descriptors.OURS
    for limit, usable, control in (
        (40, 30, 34), (resource.RLIM_INFINITY, sys.maxsize, sys.maxsize),
    ):  # fmt: skip
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert descriptors.usable() == usable
        assert descriptors.usable_for_control() == control


def test_no_limit_is_no_number(monkeypatch: pytest.MonkeyPatch):
    infinity = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (infinity, infinity))
    monkeypatch.setattr(descriptors, "_TABLE", "/nowhere")
    assert descriptors.limits() == {"soft": None, "hard": None, "open": None}
