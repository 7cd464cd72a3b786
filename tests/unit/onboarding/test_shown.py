"""Entries are shown without their secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.onboarding import shown
from tests.support.clients import SECRET, entry


@pytest.mark.parametrize(
    ("one", "secrets"),
    [
        (entry("x", env={"GITHUB_TOKEN": "short", "LEVEL": "info"}), ["env.GITHUB_TOKEN"]),
        (entry("x", env={"A": SECRET}), ["env.A"]),
        (entry("x", env={"TOKEN": "${TOKEN}", "KEY": "$KEY", "PAT": "${PAT:-}"}), []),
        (entry("x", env={"TOKEN": ""}), []),
        (entry("x", "--token", "abcdefgh", "--max-tokens", "5"), ["args[1]"]),
        (entry("x", "--token", "${TOKEN}"), []),
        (entry("x", "--api-key=abc"), ["args[0]"]),
        ({"url": "https://h", "headers": {"Authorization": "Bearer abc"}}, ["headers.Authorization"]),
        ({"url": "https://h", "headers": {"Authorization": "Bearer ${T}"}}, []),
        ({"url": "https://h/?api_key=abcdef"}, ["url"]),
        ({"url": "https://h", "auth": {"CLIENT_ID": "i", "CLIENT_SECRET": "s"}}, ["auth.CLIENT_SECRET"]),
        ({"args": "odd", "env": {"TOKEN": 5}}, []),
    ],
)  # fmt: skip
def test_secrets_in_the_clear_are_named(one: dict[str, Any], secrets: list[str]) -> None:
    assert shown.secrets(one) == secrets


@pytest.mark.parametrize(
    "one",
    [
        entry(
            "x", "--token", SECRET, f"--header=Authorization: Bearer {SECRET}", env={"A": SECRET}
        ),
        {"url": f"https://h/mcp?token={SECRET}", "headers": {"X-Api-Key": SECRET}},
        {"type": "local", "command": ["x", "--token", SECRET], "environment": {"TOKEN": SECRET}},
        {"transport": {"command": "x", "env": {"TOKEN": SECRET}}},
        {"requestOptions": {"headers": {"Authorization": f"Bearer {SECRET}"}}, "apiKey": SECRET},
        {"oauth": {"clientSecret": SECRET}},
        {"command": f"npx --token {SECRET}"},
    ],
)
def test_no_secret_is_shown(one: dict[str, Any]) -> None:
    text = json.dumps(shown.masked(one))
    assert SECRET[4:20] not in text
    assert "***" in text


def test_what_is_no_secret_is_shown_as_it_is() -> None:
    one = entry("uvx", "x", "${input:api-key}", env={"LEVEL": "info", "TOKEN": "${TOKEN}"}, n=1.5)
    assert shown.masked(one) == one


def test_a_dollar_sign_is_no_variable() -> None:
    assert shown.masked({"A": "a$$b$c"}) == {"A": "a$$b${c}"}


def test_what_is_hidden_is_masked_whole() -> None:
    one = entry("uvx", "--x=pass", env={"K": "pass", "L": "other"})
    found = shown.masked(one, hidden={"pass"})
    assert (found["args"], found["env"]) == (["***"], {"K": "***", "L": "other"})
