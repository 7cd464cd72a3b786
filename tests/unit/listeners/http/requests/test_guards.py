"""What is checked of a request before its body is read."""

from __future__ import annotations

import pytest

from mcpd.listeners.http.requests import guards
from mcpd.listeners.http.requests.guards import Accepted


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:5", "127.0.0.1", "127.0.0.1:6273", "[::1]", "[::1]:9", "mcp.example"],
)
def test_names_of_ours(host):
    assert guards.is_our_host(host, {"mcp.example"})


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:6273", "10.0.0.1",
     "127.0.0.1:6273:1", "127.0.0.1:", "localhost:99999999", "::1", "mcp.example.evil"],
)  # fmt: skip
def test_names_that_are_not_ours(host):
    assert not guards.is_our_host(host, {"mcp.example"})


def test_the_listeners_own_origin_and_allowed_ones():
    allowed = {"http://localhost:6274"}
    assert guards.is_our_origin("http://127.0.0.1:6273", "127.0.0.1:6273", allowed)
    assert guards.is_our_origin("http://localhost:6274", "127.0.0.1:6273", allowed)
    for origin in ("null", "http://localhost:6275", "https://localhost:6274", "http://evil", ""):
        assert not guards.is_our_origin(origin, "127.0.0.1:6273", allowed)


def test_a_preflight_allows_parameters_that_are_header_names():
    headers = dict(guards.preflight("mcp-param-region, x-other, Mcp-Param-A\tb, mcp-param-"))
    allowed = headers[b"Access-Control-Allow-Headers"].decode().split(", ")
    assert "mcp-param-region" in allowed
    assert "authorization" in allowed
    assert not [name for name in allowed if name.startswith("x-") or "\t" in name]
    assert "mcp-param-" not in allowed


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer x", "x"), ("bearer  x ", "x"), ("Bearer", None), ("Bearer ", None), ("Basic x", None),
     (None, None), ("", None)],
)  # fmt: skip
def test_bearer_tokens(header, token):
    assert guards.bearer(header) == token


@pytest.mark.parametrize(
    ("header", "json", "stream"),
    [
        (None, True, True),
        ("*/*", True, True),
        ("application/json, text/event-stream", True, True),
        ("application/*, text/*", True, True),
        ("application/json", True, False),
        ("text/event-stream", False, True),
        ("text/event-stream;q=0.5, application/json;q=0.9", True, True),
        ("application/json;q=0, */*", False, True),
        ("*/*;q=0", False, False),
        ("text/html", False, False),
        ("application/json;q=x", False, False),
        ("", False, False),
        (",,", False, False),
    ],
)
def test_accepted_types(header, json, stream):
    found = Accepted(header)
    assert (found.json, found.stream) == (json, stream)


@pytest.mark.parametrize(
    ("header", "is_json"),
    [("application/json", True), ("Application/JSON; charset=utf-8", True), ("text/plain", False),
     ("application/json-seq", False), (None, False), ("", False)],
)  # fmt: skip
def test_content_types(header, is_json):
    assert guards.is_json(header) is is_json
