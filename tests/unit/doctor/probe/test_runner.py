"""Probes that hang."""

from __future__ import annotations

import threading
import time

from mcpd.doctor.probe.runner import Probes
from tests.support.waiting import scaled


def test_what_hangs_is_left_behind_and_told() -> None:
    """
    A dead network disk must not keep the rest from being told.
    """
    never = threading.Event()
    looks = Probes(0.2)
    began = time.monotonic()
    looks.take({"slow": never.wait, "fast": lambda: 7})
    assert time.monotonic() - began < scaled(5)
    assert looks.get("fast") == 7
    assert looks.get("slow") is None
    assert looks.unfinished == ["slow"]
    never.set()


def test_a_first_look_does_not_take_all_the_time() -> None:
    never = threading.Event()
    looks = Probes(60)
    began = time.monotonic()
    looks.take({"slow": never.wait}, most_s=0.1)
    assert time.monotonic() - began < scaled(10)
    looks.take({"next": lambda: "found"})
    assert looks.get("next") == "found"
    never.set()


def test_nothing_found_is_not_unfinished() -> None:
    looks = Probes(60)
    looks.take({"none": lambda: None})
    assert looks.unfinished == []
