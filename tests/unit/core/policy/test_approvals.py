"""Which calls are asked about."""

from __future__ import annotations

import pytest

from mcpd.core.policy.approvals import Asks, Mode

LOOKS_ALIKE = "re\u0430d_file"  # a Cyrillic letter


@pytest.mark.parametrize(
    ("mode", "asked", "free"),
    [
        ("ask", ["x", "get"], []),
        ("trusted", ["x"], ["get"]),
        ("writes", ["x"], ["reads"]),
    ],
)
def test_modes(mode: Mode, asked: list[str], free: list[str]) -> None:
    trusted = ["get"] if mode == "trusted" else []
    asks = Asks(mode, trusted=trusted)
    assert all(asks.reason(name, is_read_only=False) for name in asked)
    assert not any(asks.reason(name, is_read_only=name == "reads") for name in free)


def test_ask_beats_trusted_beats_the_mode() -> None:
    asks = Asks("ask", trusted=["read_*"], ask=["read_secret"])
    assert asks.reason("read_x", is_read_only=False) is None
    assert asks.reason("read_secret", is_read_only=True) is not None
    assert asks.reason("write", is_read_only=True) is not None


def test_a_look_alike_loses_rights_and_wins_none() -> None:
    asks = Asks("auto", ask=["READ_*"])
    assert asks.reason("read_file", is_read_only=False) and asks.reason(
        LOOKS_ALIKE, is_read_only=False
    )
    trusts = Asks("trusted", trusted=["read_*"])
    assert trusts.reason("read_file", is_read_only=False) is None
    assert trusts.reason(LOOKS_ALIKE, is_read_only=False) is not None
    assert trusts.reason("READ_file", is_read_only=False) is not None


def test_a_name_that_is_too_long_to_be_looked_at_is_asked_about() -> None:
    asks = Asks("auto", ask=["*_delete"])
    assert asks.reason("x" * 300 + "_delete", is_read_only=False)
    assert asks.reason("x_read", is_read_only=False) is None


@pytest.mark.parametrize(
    ("profile", "tool", "is_asked"),
    [
        ("auto", "get", False),
        ("ask", "get", True),
        ("trusted", "get", False),
        ("trusted", "other", True),
        ("writes", "get", True),
        ("writes", "reads", False),
    ],
)
def test_a_profile_comes_on_top(profile: Mode, tool: str, is_asked: bool) -> None:
    asks = Asks("auto", trusted=["get"], profile=profile)
    assert (asks.reason(tool, is_read_only=tool == "reads") is not None) is is_asked


def test_nothing_configured_is_no_table() -> None:
    assert Asks.of("auto", trusted=["x"]) is None
    assert Asks.of("auto", ask=["x"]) is not None and Asks.of("auto", profile="ask") is not None
