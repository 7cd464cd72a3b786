"""Revisions, their order, and which one a session gets."""

from __future__ import annotations

import pytest

from mcpd.core.mcp.versions import LEGACY, MAY_OMIT_ID, NEWEST_LEGACY, negotiate


def test_revisions_are_in_order():
    assert [*LEGACY] == sorted(LEGACY)
    assert LEGACY[-1] == NEWEST_LEGACY
    assert MAY_OMIT_ID in LEGACY


@pytest.mark.parametrize(
    ("asked", "newest", "given"),
    [
        ("2025-06-18", "2025-11-25", "2025-06-18"),
        ("2025-11-25", "2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25", "2024-11-05"),
        ("2025-11-25", "2025-03-26", "2025-03-26"),  # the client would rely on what cannot come
        ("2026-07-28", "2025-06-18", "2025-06-18"),
        ("garbage", "2025-06-18", "2025-06-18"),
        ("", "2024-11-05", "2024-11-05"),
        (None, "2025-11-25", "2025-11-25"),
        ("2025-06-18", "2026-07-28", "2025-06-18"),
        ("2026-07-28", "2026-07-28", "2025-11-25"),
        ("garbage", "2026-07-28", "2025-11-25"),
    ],
)
def test_a_session_gets_what_it_asks_for_and_never_more_than_there_is(
    asked: str | None, newest: str, given: str
):
    assert negotiate(asked, newest) == given
