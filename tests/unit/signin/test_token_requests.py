"""Requests to a token endpoint, and what its answers mean."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from mcpd.signin import token_requests
from mcpd.signin.credentials import Client, Credentials
from mcpd.signin.token_requests import Denied, Reply, Tokens, Unanswered, read

MADE = Credentials(
    server="far",
    url="https://h/mcp",
    issuer="https://as",
    token_endpoint="https://as/token",
    resource="https://h/mcp",
    client=Client(client_id="c"),
    refresh_token="r",
)


def form(request: token_requests.Post) -> dict[str, list[str]]:
    return parse_qs(request.body.decode())


def test_a_client_proves_itself_in_exactly_one_way() -> None:
    """
    Id and secret are form-encoded before base64. Source: RFC 6749, section 2.3.1.
    """
    client = Client(client_id="a:b", client_secret="%+ ä", method="client_secret_basic")
    basic = token_requests.refresh(MADE, client)
    pair = base64.b64decode(basic.headers["Authorization"].removeprefix("Basic "))
    assert pair == b"a%3Ab:%25%2B%20%C3%A4" and "client_id" not in form(basic)
    post = token_requests.refresh(
        MADE, msgspec.structs.replace(client, method="client_secret_post")
    )
    assert form(post)["client_secret"] == ["%+ ä"] and "Authorization" not in post.headers
    none = token_requests.refresh(MADE, Client(client_id="c"))
    assert form(none) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r"],
        "resource": ["https://h/mcp"],
        "client_id": ["c"],
    }


def body(**members: Any) -> Reply:
    return Reply(200, json.dumps({"access_token": "a", **members}).encode())


@pytest.mark.parametrize(
    ("expires", "seconds"),
    [(3600, 3600.0), ("60", 60.0), (1.5, 1.5), (None, None), ("soon", None), (-1, None), (0, None),
     ([], None), (1e300, None)],
)  # fmt: skip
def test_the_life_of_a_token(expires: Any, seconds: float | None) -> None:
    assert read(body(expires_in=expires)) == Tokens("a", seconds)


def test_what_a_token_may_do() -> None:
    found = read(body(scope="a b", refresh_token="r2", token_type="bearer"))
    assert found == Tokens("a", None, "r2", ("a", "b"))


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(400, b'{"error": "invalid_grant"}'), Denied("invalid_grant")),
        (Reply(401, b'{"error": "invalid_client"}'), Denied("invalid_client")),
        (Reply(400, b'{"error": "the token SECRET is bad"}'), Denied("an error without a code")),
        (body(token_type="mac"), Denied("unsupported_token_type")),
        (Reply(400, b"<html>"), Unanswered("HTTP status 400", 400)),
        (Reply(503, b'{"error": "invalid_grant"}'), Unanswered("HTTP status 503", 503)),
        (Reply(200, b"{}"), Unanswered("HTTP status 200", 200)),
        (Reply(200, b"[" * 100_000), Unanswered("HTTP status 200", 200)),
        (Reply(302, b""), Unanswered("HTTP status 302", 302)),
    ],
)
def test_only_an_error_of_oauth_ends_a_sign_in(reply: Reply, outcome: Any) -> None:
    assert read(reply) == outcome
