"""Findings in their order."""

from __future__ import annotations

from mcpd.doctor import finding


def test_the_worst_comes_first_and_the_rest_stays_in_its_order() -> None:
    mixed = [
        finding.fine("a", "x"),
        finding.note("b", "x"),
        finding.warning("c", "x", "do"),
        finding.error("d", "x", "do"),
        finding.warning("e", "x", "do"),
    ]
    assert [each.id for each in finding.ordered(mixed)] == ["d", "c", "e", "b", "a"]
