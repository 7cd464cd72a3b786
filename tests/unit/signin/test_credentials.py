"""When a token is renewed, and what of a sign-in is used again."""

from __future__ import annotations

import msgspec
import pytest

from mcpd.signin.credentials import Client, Credentials, digest_of, stamp
from mcpd.upstreams.http import challenges

MADE = Credentials(
    server="far",
    url="https://h/mcp",
    token_endpoint="https://as/token",
    client=Client(client_id="c"),
    access_token="a",
    obtained=1000.0,
    expires=4600.0,
    refresh_token="r",
)


def test_a_token_is_due_before_its_end() -> None:
    assert not MADE.is_due(4539.0) and MADE.is_due(4541.0) and MADE.is_valid(4541.0)
    assert not MADE.is_valid(4600.0)
    brief = msgspec.structs.replace(MADE, expires=1010.0)
    assert not brief.is_due(1007.0) and brief.is_due(1008.5)
    assert not msgspec.structs.replace(MADE, expires=None).is_due(1e12)


def test_a_refresh_token_that_was_sent_is_not_sent_by_the_next_daemon() -> None:
    spent = msgspec.structs.replace(MADE, spent=digest_of("r"))
    assert MADE.can_refresh and not spent.can_refresh
    assert msgspec.structs.replace(spent, refresh_token="r2").can_refresh
    assert msgspec.structs.replace(spent, is_kept=True).can_refresh


@pytest.mark.parametrize("at", [-1.0, 0.0, 1e9, 1e300])
def test_every_time_can_be_shown(at: float) -> None:
    assert stamp(at).endswith("Z")


@pytest.mark.parametrize(
    ("challenge", "scopes", "where"),
    [
        ('Bearer scope="a b", resource_metadata="https://h/x"', ("a", "b"), "https://h/x"),
        ("Basic realm=x, Bearer resource_metadata=https://h/x,scope=a", ("a",), "https://h/x"),
        ('Bearer error="invalid_token"', (), ""),
        ('Bearer noscope="a"', (), ""),
        ("", (), ""),
    ],
)
def test_what_a_challenge_says(challenge: str, scopes: tuple[str, ...], where: str) -> None:
    assert challenges.scopes(challenge) == scopes
    assert challenges.parameter(challenge, "resource_metadata") == where


def test_a_challenge_for_scopes_keeps_the_place_of_the_metadata() -> None:
    earlier = 'Bearer resource_metadata="https://h/x"'
    found = challenges.with_metadata_of('Bearer error="insufficient_scope"', earlier)
    assert challenges.parameter(found, "resource_metadata") == "https://h/x"
    assert challenges.with_metadata_of(earlier, 'Bearer resource_metadata="https://h/y"') == earlier
