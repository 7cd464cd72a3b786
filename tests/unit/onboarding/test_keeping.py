"""Literal secrets of entries, replaced by names."""

from __future__ import annotations

from typing import Any

from mcpd.onboarding import keeping, shown
from mcpd.onboarding.keeping import Literal

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
ENTRIES: dict[str, dict[str, Any]] = {
    "my hub": {
        "command": "hub",
        "args": ["--token", TOKEN],
        "env": {"HUB_TOKEN": "a$$b", "LEVEL": "info", "KEY": "${FROM_ENV}", "API_KEY": "x${V}y"},
    },
    "far": {
        "url": "https://x.example/mcp",
        "headers": {"Authorization": "Bearer abc-123", "X-Team": "blue"},
        "auth": {"type": "basic", "username": "ada", "password": "pw"},
    },
    "done": {"command": "x", "env": {"TOKEN": "${keyring:done.TOKEN}"}},
}
FOUND = [
    Literal("my hub", "env", "HUB_TOKEN", "", "a$b"),
    Literal("far", "headers", "Authorization", "Bearer ", "abc-123"),
    Literal("far", "auth", "password", "", "pw"),
]


def test_whole_values_are_found_and_arguments_are_left() -> None:
    assert keeping.literals(ENTRIES) == FOUND


def test_each_gets_a_name_that_no_other_value_has() -> None:
    names = keeping.chosen(
        [*FOUND, FOUND[0]], {"far.password": "another", "my_hub.HUB_TOKEN": "a$b"}
    )
    assert [*names.values()] == ["my_hub.HUB_TOKEN", "far.Authorization", "far.password-2"]


def test_entries_name_what_was_moved_and_can_be_compared_with_what_they_were() -> None:
    names = keeping.chosen(FOUND, {})
    after = keeping.moved(ENTRIES, names)
    assert after["far"]["headers"]["Authorization"] == "Bearer ${keyring:far.Authorization}"
    assert after["my hub"]["env"]["HUB_TOKEN"] == "${keyring:my_hub.HUB_TOKEN}"
    assert ENTRIES["my hub"]["env"]["HUB_TOKEN"] == "a$$b"
    assert shown.secrets(after["far"]) == []
    assert sorted(keeping.names_in(after)) == ["done.TOKEN", *sorted(names.values())]
    values = {name: each.value for each, name in names.items()}
    assert keeping.filled(after, values) == ENTRIES, "what is not known stays"
