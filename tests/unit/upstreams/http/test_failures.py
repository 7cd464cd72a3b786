"""What clients are told."""

from __future__ import annotations

import pytest

from mcpd.config.remote import AuthConfig
from mcpd.upstreams.http import failures
from mcpd.upstreams.http.authorizer import CannotAuthorize, Refused
from mcpd.upstreams.http.failures import Unreachable
from mcpd.upstreams.http.static import StaticAuthorizer


@pytest.mark.parametrize(
    ("challenge", "scopes"),
    [
        ("", []),
        ("Bearer", []),
        ('Bearer error="insufficient_scope", scope="a b", x="y"', ["a", "b"]),
        ("Bearer scope=a, x=y", ["a"]),
        ('Bearer error_description="no scope=b here", scope="a"', ["a"]),
    ],
)
def test_scopes_of_a_challenge(challenge, scopes):
    details = failures.refused("far", 403, "the token", challenge).details
    assert details.get("scopes", []) == scopes


def test_what_may_work_later():
    assert failures.answered_with("far", 502, "").is_retryable
    assert failures.answered_with("far", 429, "").is_retryable
    assert not failures.answered_with("far", 404, "").is_retryable
    assert failures.unreachable("far", Unreachable("refused", "no")).is_retryable
    assert not failures.unreachable("far", Unreachable("http", "cut", is_sent=True)).is_retryable
    assert not failures.unreachable("far", Unreachable("tls", "bad")).is_retryable


@pytest.mark.parametrize("kind", ["none", "auto", "bearer", "api-key", "basic"])
@pytest.mark.parametrize(("status", "failure"), [(401, "unauthorized"), (403, "forbidden")])
async def test_a_refusal_of_what_the_entry_says_is_final(kind, status, failure):
    authorizer = StaticAuthorizer("far", AuthConfig(kind=kind, token="S", key="S", password="S"))
    with pytest.raises(CannotAuthorize) as raised:
        await authorizer.refused(await authorizer.headers(), Refused(status))
    assert raised.value.failure.kind == failure and "S" not in raised.value.failure.message.split()
