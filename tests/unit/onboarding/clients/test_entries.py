"""Entries of clients become the entries that mcpd has for the same servers."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.onboarding.clients.entries import is_server, read
from mcpd.onboarding.clients.launch import Connects, identity
from mcpd.onboarding.clients.table import BY_ID, CLIENTS, MCPD
from tests.support.clients import entry, spelled

URL = "https://mcp.example.invalid/mcp"


def made(client: str, content: Any, **more: Any) -> dict[str, Any]:
    found = read("x", content, BY_ID[client], **more)
    assert found.why_not is None, found.why_not
    return found.entry


def why(client: str, content: Any) -> str:
    found = read("x", content, BY_ID[client])
    assert found.entry == {}
    assert found.why_not is not None
    return found.why_not


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
def test_a_server_of_every_client_is_the_same_server(client: Any) -> None:
    content = spelled(client, "x", entry("uvx", "a", "b", env={"A": "1"}))
    assert made(client.id, content) == {"command": "uvx", "args": ["a", "b"], "env": {"A": "1"}}


@pytest.mark.parametrize(
    ("client", "more", "times"),
    [
        ("claude-code", {"timeout": 5000}, {"call_timeout": 5}),
        ("cline", {"timeout": 1500}, {"call_timeout": 1500}),
        ("cline-cli", {"timeout": 90}, {"call_timeout": 90}),
        ("roo-code", {"timeout": 90}, {"call_timeout": 90}),
        (
            "codex",
            {"startup_timeout_sec": 20, "tool_timeout_sec": 60.5},
            {"startup_timeout": 20, "call_timeout": 60.5},
        ),
        ("codex", {"startup_timeout_ms": 900}, {"startup_timeout": 0.9}),
        ("gemini-cli", {"timeout": 600}, {"call_timeout": 0.6}),
        ("qwen-code", {"timeout": 5000}, {"call_timeout": 5}),
        ("opencode", {"timeout": 250}, {"call_timeout": 0.25}),
        (
            "opencode",
            {"timeout": {"startup": 1000, "request": 250}},
            {"startup_timeout": 1, "call_timeout": 0.25},
        ),
        ("goose", {"timeout": 300}, {"call_timeout": 300}),
        ("crush", {"timeout": 12}, {"call_timeout": 12}),
        ("amazon-q", {"timeout": 120000}, {"call_timeout": 120}),
        ("copilot-cli", {"timeout": 800}, {"call_timeout": 0.8}),
        (
            "kimi-code",
            {"startupTimeoutMs": 5000, "toolTimeoutMs": 7000},
            {"startup_timeout": 5, "call_timeout": 7},
        ),
        ("cursor", {"timeout": True}, {}),
        ("cline", {"timeout": 0}, {}),
        ("cline", {"timeout": "60"}, {}),
    ],
)
def test_a_time_out_keeps_its_unit(
    client: str, more: dict[str, Any], times: dict[str, Any]
) -> None:
    content = spelled(BY_ID[client], "x", entry("uvx"))
    assert made(client, content | more) == {"command": "uvx", **times}


@pytest.mark.parametrize("value", [True, 0, -1, "5"])
def test_a_time_out_that_is_none_is_left_out(value: Any) -> None:
    assert made("claude-code", entry("uvx", timeout=value)) == {"command": "uvx"}


def test_a_time_out_without_a_known_unit_is_left_out_and_said() -> None:
    found = read("x", entry("uvx", timeout=60), BY_ID["zed"])
    assert found.entry == {"command": "uvx"}
    assert "timeout" in found.notes[0]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
@pytest.mark.parametrize("off", [{"enabled": False}, {"disabled": True}])
def test_what_was_off_stays_off(client: Any, off: dict[str, Any]) -> None:
    assert made(client.id, spelled(client, "x", entry("uvx")) | off)["enabled"] is False


@pytest.mark.parametrize(
    ("client", "more", "tools"),
    [
        ("codex", {"enabled_tools": ["r"], "disabled_tools": ["w"]}, {"allow": ["r"], "deny": ["w"]}),
        ("gemini-cli", {"includeTools": ["r"], "excludeTools": ["w"]}, {"allow": ["r"], "deny": ["w"]}),
        ("roo-code", {"disabledTools": ["w"]}, {"deny": ["w"]}),
        ("goose", {"available_tools": ["r"]}, {"allow": ["r"]}),
        ("goose", {"available_tools": []}, None),
        ("kimi-code", {"enabledTools": ["r"], "disabledTools": ["w"]}, {"allow": ["r"], "deny": ["w"]}),
        ("copilot-cli", {"tools": ["*"]}, None),
        ("copilot-cli", {"tools": ["r"]}, {"allow": ["r"]}),
    ],
)  # fmt: skip
def test_filters_of_tools_come_along(client: str, more: Any, tools: Any) -> None:
    assert made(client, spelled(BY_ID[client], "x", entry("uvx")) | more).get("tools") == tools


def test_names_that_codex_passes_on_are_variables() -> None:
    content = entry("uvx", env={"B": "$x"}, env_vars=["FOO", {"name": "BAZ", "source": "local"}])
    assert made("codex", content)["env"] == {"B": "$$x", "FOO": "${FOO:-}", "BAZ": "${BAZ:-}"}


@pytest.mark.parametrize(
    ("client", "content", "remote"),
    [
        ("claude-code", {"type": "http", "url": URL}, {"url": URL, "type": "http"}),
        ("claude-code", {"type": "streamable-http", "url": URL}, {"url": URL, "type": "http"}),
        ("claude-code", {"type": "sse", "url": URL}, {"url": URL, "type": "sse"}),
        ("cursor", {"url": URL}, {"url": URL}),
        ("windsurf", {"serverUrl": URL, "headers": {"A": "b"}}, {"url": URL, "headers": {"A": "b"}}),
        ("cline", {"url": URL}, {"url": URL, "type": "sse"}),
        ("cline", {"type": "streamableHttp", "url": URL}, {"url": URL, "type": "http"}),
        ("cline-cli", {"transport": {"type": "streamableHttp", "url": URL}}, {"url": URL, "type": "http"}),
        ("roo-code", {"url": URL}, {"url": URL, "type": "sse"}),
        ("qwen-code", {"httpUrl": URL}, {"url": URL, "type": "http"}),
        ("qwen-code", {"url": URL}, {"url": URL, "type": "sse"}),
        ("gemini-cli", {"httpUrl": URL}, {"url": URL, "type": "http"}),
        ("opencode", {"type": "remote", "url": URL}, {"url": URL}),
        ("goose", {"type": "streamable_http", "uri": URL}, {"url": URL, "type": "http"}),
        ("mcporter", {"baseUrl": URL, "bearerTokenEnv": "T"}, {"url": URL, "bearer_token_env_var": "T"}),
        ("continue", {"url": URL, "requestOptions": {"headers": {"A": "b"}}}, {"url": URL, "headers": {"A": "b"}}),
        ("continue", {"url": URL, "apiKey": "k"}, {"url": URL, "headers": {"Authorization": "Bearer k"}}),
        (
            "codex",
            {"url": URL, "http_headers": {"A": "$b"}, "env_http_headers": {"C": "D"}, "bearer_token_env_var": "T"},
            {"url": URL, "headers": {"A": "$$b"}, "env_http_headers": {"C": "D"}, "bearer_token_env_var": "T"},
        ),
        ("cursor", {"url": URL, "auth": {"CLIENT_ID": "${env:I}"}}, {"url": URL, "auth": {"CLIENT_ID": "${I}"}}),
        ("gemini-cli", {"url": URL, "oauth": {"enabled": True}}, {"url": URL, "oauth": {"enabled": True}}),
        ("cursor", {"url": "http://localhost:1/mcp"}, {"url": "http://localhost:1/mcp"}),
        ("cursor", {"url": "http://h/mcp"}, {"url": "http://h/mcp", "allow_insecure": True}),
    ],
)  # fmt: skip
def test_a_remote_entry_is_remote(client: str, content: Any, remote: dict[str, Any]) -> None:
    assert made(client, content) == remote


@pytest.mark.parametrize(
    ("client", "content", "said"),
    [
        ("cursor", "text", "table"),
        ("cursor", {}, "neither"),
        ("cursor", {"command": "x", "url": URL}, "both"),
        ("cursor", {"command": "x", "args": "y"}, "texts"),
        ("cursor", {"command": ["x", 5]}, "texts"),
        ("cursor", {"command": "x", "env": ["A=1"]}, "env"),
        ("cursor", {"command": "x", "env": {"A": {}}}, "env.A"),
        ("cursor", {"command": "~/x"}, "~"),
        ("codex", {"command": "x", "args": ["~"]}, r"args[0]"),
        ("codex", {"command": "x", "cwd": "sub"}, "relative"),
        ("cursor", {"command": "x", "envFile": ".env"}, "relative"),
        ("goose", {"cmd": "x", "env_keys": ["API_KEY"]}, "API_KEY"),
        ("claude-code", {"type": "ws", "url": "wss://h"}, "wss"),
        ("vscode", {"type": "http", "url": "unix:///run/x"}, "unix"),
        ("claude-code", {"type": "http", "url": URL, "headersHelper": "x"}, "headersHelper"),
        ("gemini-cli", {"url": URL, "authProviderType": "google"}, "authProviderType"),
    ],
)  # fmt: skip
def test_what_cannot_be_moved_has_a_reason(client: str, content: Any, said: str) -> None:
    assert said in why(client, content)


def test_what_a_client_does_not_read_is_left_out_and_said() -> None:
    """opencode drops ``env`` without a word, and Claude Code ``cwd``."""
    found = read("x", {"type": "local", "command": ["x"], "env": {"A": "1"}}, BY_ID["opencode"])
    assert found.entry == {"command": "x"}
    assert "env" in found.notes[0]
    found = read("x", entry("x", cwd="/tmp"), BY_ID["claude-code"])
    assert found.entry == {"command": "x"}
    assert "cwd" in found.notes[0]


def test_numbers_in_the_environment_are_texts() -> None:
    env = {"PORT": 8080, "DEBUG": True, "NOT": None}
    found = read("x", entry("x", env=env), BY_ID["cursor"])
    assert found.entry["env"] == {"PORT": "8080", "DEBUG": "true"}
    assert "NOT" in found.notes[0]


def test_an_older_entry_of_zed_is_read() -> None:
    content = {"command": {"path": "uvx", "args": ["x"], "env": {"A": "1"}}, "settings": {}}
    found = made("zed", content)
    assert (found["command"], found["args"]) == ("uvx", ["x"])


def test_a_path_that_depends_on_the_directory_means_a_server_per_workspace(tmp_path: Any) -> None:
    assert made("codex", entry("./serve"))["sharing"] == "workspace"
    assert made("codex", entry("node", "./serve.js"))["sharing"] == "workspace"
    assert "sharing" not in made("codex", entry("node", "serve.js"))
    (tmp_path / "serve.js").touch()
    where = str(tmp_path)
    for arg in ("serve.js", "./serve.js"):
        found = made("claude-code", entry("node", arg), directory=where)
        assert found == {"command": "node", "args": [arg], "cwd": where}
    for arg in ("other.js", f"{where}/serve.js", ""):
        assert "cwd" not in made("claude-code", entry("node", arg), directory=where), arg


@pytest.mark.parametrize(
    ("content", "connects"),
    [
        (entry("mcpctl", "connect", "a"), Connects("mcpctl", "a")),
        (entry("/x/mcpctl", "--socket", "/s", "connect", "a"), Connects("/x/mcpctl", "a", "/s")),
        (entry("/x/mcpctl", "connect", "--socket=/s"), Connects("/x/mcpctl", None, "/s")),
        ({"command": ["/x/mcpctl", "connect"]}, Connects("/x/mcpctl", None)),
        ({"transport": entry("mcpctl", "connect", "a")}, Connects("mcpctl", "a")),
        (entry("mcpctl", "connect", "--", "uvx", "x"), None),
        (entry("mcpctl", "status"), None),
        (entry("uvx", "connect", "a"), None),
        ({"command": ["mcpctl", 5]}, None),
    ],
)  # fmt: skip
def test_an_entry_that_runs_the_bridge_is_known(content: Any, connects: Connects | None) -> None:
    assert read("x", content, BY_ID["cursor"]).connects == connects


def test_extensions_of_clients_are_no_servers() -> None:
    assert not is_server({"type": "builtin", "name": "developer", "enabled": True})
    assert not is_server({"source": "extension", "settings": {}})
    assert is_server({"source": "custom", "command": "x"})


def test_servers_are_the_same_by_what_is_launched_or_reached() -> None:
    one = {"command": "uvx", "args": ["x"], "env": {"A": "$B", "C": "d"}}
    assert identity(one) == identity(one | {"env": {"C": "d", "A": "${env:B}"}, "enabled": False})
    assert identity(one) != identity(one | {"env": {}})
    assert identity(one) != identity(one | {"cwd": "/x"})
    remote = {"url": URL, "bearer_token_env_var": "T"}
    assert identity(remote) == identity(
        {"httpUrl": URL, "headers": {"authorization": "Bearer ${T}"}, "type": "http"}
    )
    assert identity(remote) != identity({"url": URL})
    named = {"url": URL, "headers": {"X-Key": "a"}}
    assert identity(named) == identity({"url": URL, "headers": {"x-key": "a"}})
    assert identity(named) != identity({"url": URL, "headers": {"x-key": "b"}})
    assert identity({"url": URL}) != identity({"url": URL, "oauth": {"clientId": "x"}})
    assert identity(one) != identity(one | {"env_file": "/x"})


def test_an_entry_of_mcpds_own_stays_what_it_is() -> None:
    own = {"command": "~/x", "args": ["$A"], "sharing": "session", "timeout": 5000}
    assert read("x", own, MCPD).entry == own
