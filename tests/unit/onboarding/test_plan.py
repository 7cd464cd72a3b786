"""Which servers mcpd gets, and under which names."""

from __future__ import annotations

from typing import Any

from mcpd.onboarding.own import Own
from mcpd.onboarding.plan import Plan, plan
from tests.support.clients import Home, entry


def planned(home: Home, *only: str, **own: Any) -> Plan:
    return plan(home.found(), Own(path="/own", table="mcpServers", entries=own), only)


def moves(made: Plan) -> list[tuple[str, str, str, bool]]:
    return [(m.file.client.id, m.found.name, m.server, m.is_new) for m in made.moves]


def test_equal_servers_are_one(home: Home) -> None:
    for client in ("cursor", "opencode", "codex"):
        home.client(client, {"files": entry("uvx", "x", env={"A": "1"})})
    made = planned(home)
    assert list(made.new) == ["files"]
    assert moves(made) == [
        ("cursor", "files", "files", True),
        ("codex", "files", "files", False),
        ("opencode", "files", "files", False),
    ]


def test_a_server_that_mcpd_has_is_not_copied(home: Home) -> None:
    home.client("cursor", {"other": entry("uvx", "x")})
    made = planned(home, files=entry("uvx", "x"))
    assert made.new == {}
    assert moves(made) == [("cursor", "other", "files", False)]


def test_of_two_equal_servers_of_mcpd_the_first_counts(home: Home) -> None:
    home.client("cursor", {"other": entry("uvx", "x")})
    made = planned(home, first=entry("uvx", "x"), second=entry("uvx", "x"))
    assert moves(made) == [("cursor", "other", "first", False)]


def test_a_taken_name_gets_the_clients_name_behind_it(home: Home) -> None:
    home.client("cursor", {"github": entry("uvx", "theirs")})
    home.client("vscode", {"github": entry("uvx", "other")})
    made = planned(home, github=entry("uvx", "mine"), **{"github-vscode": entry("x")})
    assert list(made.new) == ["github-cursor", "github-vscode-2"]


def test_a_server_is_on_if_it_is_on_in_one_client(home: Home) -> None:
    home.client("cursor", {"a": entry("x", disabled=True), "b": entry("y", disabled=True)})
    home.client("vscode", {"a": entry("x")})
    made = planned(home)
    assert "enabled" not in made.new["a"]
    assert made.new["b"]["enabled"] is False


def test_tools_that_one_of_the_clients_shows_are_shown(home: Home) -> None:
    home.client("roo-code", {"a": entry("x", disabledTools=["r", "w"])})
    home.client("codex", {"a": entry("x", disabled_tools=["w"], enabled_tools=["l"])})
    made = planned(home)
    assert made.new["a"]["tools"] == {"deny": ["w"]}
    assert "a of Codex" in made.warnings[-1]


def test_a_time_out_that_another_client_lacks_or_has_otherwise_is_named(home: Home) -> None:
    home.client("roo-code", {"a": entry("x"), "b": entry("y", timeout=5)})
    home.client("goose", {"a": entry("x", timeout=7), "b": entry("y", timeout=7)})
    made = planned(home)
    assert "call_timeout" not in made.new["a"]
    assert made.new["b"]["call_timeout"] == 5
    assert "left out" in next(each for each in made.warnings if each.startswith("a of Goose"))
    assert "from another" in next(each for each in made.warnings if each.startswith("b of Goose"))


def test_all_tools_that_a_client_shows_are_shown(home: Home) -> None:
    home.client("cursor", {"b": entry("y")})
    home.client("codex", {"a": entry("x", enabled_tools=["l"]), "b": entry("y")})
    home.client("gemini-cli", {"a": entry("x", includeTools=["r"])})
    home.client("qwen-code", {"b": entry("y", includeTools=["r"])})
    made = planned(home)
    assert made.new["a"]["tools"] == {"allow": ["l", "r"]}
    assert "tools" not in made.new["b"]


def test_one_that_has_an_allow_list_shows_less_than_one_that_has_none(home: Home) -> None:
    home.client("codex", {"a": entry("x", enabled_tools=["l"])})
    home.client("gemini-cli", {"a": entry("x")})
    assert "tools" not in planned(home).new["a"]


def test_a_time_out_that_another_client_has_is_a_warning(home: Home) -> None:
    home.client("codex", {"a": entry("x", tool_timeout_sec=5)})
    home.client("gemini-cli", {"a": entry("x", timeout=9000)})
    made = planned(home)
    assert made.new["a"]["call_timeout"] == 5
    assert [each for each in made.warnings if "call_timeout" in each] == [
        "a of Gemini CLI: the call_timeout of a comes from another client"
    ]


def test_one_that_its_client_does_not_read_is_a_warning(home: Home) -> None:
    home.client("opencode", {"x": entry("uvx", "new")})
    old = {"x": {"type": "local", "command": ["uvx", "old"]}}
    home.put(".config/opencode/opencode.json", {"mcp": old})
    made = planned(home)
    assert made.left == []
    assert len(made.moves) == 1
    assert "does not read it" in made.warnings[-1]


def test_one_server_is_enough(home: Home) -> None:
    home.client("cursor", {"a": entry("x"), "b": entry("y")})
    made = planned(home, "b", "c")
    assert list(made.new) == ["b"]
    assert [(each.name, each.client) for each in made.left] == [("c", None)]


def test_what_stays_is_named(home: Home) -> None:
    home.client("vscode", {"hard": entry("x", env={"K": "${input:k}"}), "easy": entry("y")})
    home.put(home.file("cursor"), "{")
    made = planned(home)
    assert list(made.new) == ["easy"]
    assert [(each.client, each.name, each.is_broken) for each in made.left] == [
        ("cursor", None, True),
        ("vscode", "hard", False),
    ]
    assert "line 1" in made.left[0].why
    assert "${input:k}" in made.left[1].why


def test_entries_of_ours_are_no_servers(home: Home) -> None:
    home.client("cursor", {"a": entry("mcpctl", "connect", "a")})
    made = planned(home)
    assert (made.moves, made.new, made.left) == ([], {}, [])
    assert [found.name for _, found in made.bridges] == ["a"]
