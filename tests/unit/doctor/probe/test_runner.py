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
    probes = Probes(0.2)
    began = time.monotonic()
    probes.run({"slow": never.wait, "fast": lambda: 7})
    assert time.monotonic() - began < scaled(5)
    assert probes.get("fast") == 7
    assert probes.get("slow") is None
    assert probes.unfinished == ["slow"]
    never.set()


def test_a_first_look_does_not_take_all_the_time() -> None:
    never = threading.Event()
    probes = Probes(60)
    began = time.monotonic()
    probes.run({"slow": never.wait}, most_s=0.1)
    assert time.monotonic() - began < scaled(10)
    probes.run({"next": lambda: "found"})
    assert probes.get("next") == "found"
    never.set()


def test_nothing_found_is_not_unfinished() -> None:
    probes = Probes(60)
    probes.run({"none": lambda: None})
    assert probes.unfinished == []
