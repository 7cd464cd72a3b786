"""Facts reach those that subscribed to them."""

from __future__ import annotations

from typing import Any

from mcpd.core.facts import ServerWarning, StrayEnded
from mcpd.daemon.facts import Facts


def test_a_subscriber_that_fails_keeps_no_other_from_a_fact():
    facts, got = Facts(), list[Any]()
    facts.subscribe(lambda fact: 1 / 0)
    facts.subscribe(got.append)
    facts.publish(StrayEnded(7))
    assert got == [StrayEnded(7)]


def test_a_subscriber_gets_all_facts_or_those_of_one_kind_in_order():
    facts, got = Facts(), list[Any]()
    facts.subscribe_to(StrayEnded, lambda fact: got.append(("stray", fact.pid)))
    facts.subscribe(lambda fact: got.append(("all", fact)))
    warning, stray = ServerWarning("fake", "odd"), StrayEnded(7)
    facts.publish(warning)
    facts.publish(stray)
    assert got == [("all", warning), ("all", stray), ("stray", 7)]
