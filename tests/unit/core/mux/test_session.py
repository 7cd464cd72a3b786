"""What is kept of one connection."""

from __future__ import annotations

import pytest

from mcpd.core.mux.session import Session
from mcpd.ids import SessionId


@pytest.mark.parametrize(
    ("own", "level", "wants"),
    [
        (None, "debug", False),
        (None, "info", True),
        ("error", "warning", False),
        ("error", "error", True),
        ("error", "emergency", True),
        ("debug", "debug", True),
        ("emergency", "of its own", True),
    ],
)
def test_each_session_hears_what_it_asked_for(own: str | None, level: str, wants: bool):
    """
    B090: `info` and above where it never asked; levels that nobody knows are not held back.
    """
    session = Session(SessionId(1))
    session.level = own
    assert session.wants_log(level) is wants


@pytest.mark.parametrize(
    ("version", "may_omit"), [(None, False), ("2025-06-18", False), ("2025-11-25", True)]
)
def test_errors_without_an_id_are_for_those_who_know_them(version: str | None, may_omit: bool):
    session = Session(SessionId(1))
    session.version = version
    assert session.may_omit_id is may_omit
