"""What is said of patterns that match nothing."""

from __future__ import annotations

from typing import Any

from mcpd.config.entry import ServerEntry
from mcpd.config.load import Loaded
from mcpd.config.policy import ProfileConfig, ServerPolicy
from mcpd.config.schema import ServerConfig, ToolsConfig
from mcpd.doctor.check.patterns import check


def loaded(profiles: dict[str, ProfileConfig] | None = None, **more: Any) -> Loaded:
    config = ServerConfig(command="files", **more)
    entries = {"files": ServerEntry(name="files", file="f", enabled=True, config=config)}
    return Loaded(entries=entries, profiles=profiles or {})


def messages(found: Loaded, *names: str) -> list[str]:
    return [each.message for each in check(found, {"files": names} if names else {})]


def test_patterns_of_a_server_that_match_no_tool_are_named() -> None:
    policy = ServerPolicy(trusted=("read_*",), ask=("delete_*", "rm"), pin_volatile=("news",))
    tools = ToolsConfig(allow=("*",), deny=("secret_*",))
    found = messages(loaded(policy=policy, tools=tools), "read_file", "secret_file")
    assert found == [
        "ask has 'delete_*', 'rm': no tool has such a name",
        "pin_volatile has 'news': no tool has such a name",
    ]


def test_nothing_is_said_of_servers_that_have_not_listed() -> None:
    assert messages(loaded(policy=ServerPolicy(ask=("delete_*",)))) == []


def test_a_pattern_that_takes_rights_away_also_matches_by_looks() -> None:
    assert messages(loaded(tools=ToolsConfig(deny=("READ_*",))), "read_file") == []
    assert len(messages(loaded(tools=ToolsConfig(allow=("READ_*",))), "read_file")) == 1


def test_profiles_that_name_nothing_are_told() -> None:
    profiles = {
        "review": ProfileConfig(servers=("files", "git"), tools=("read_*",)),
        "ci": ProfileConfig(tools=("files.read_*", "write_*")),
    }
    assert messages(loaded(profiles), "read_file") == [
        "the profile review names a server 'git'; there is none",
        "the profile ci has 'write_*' in tools: no tool has such a name",
    ]
