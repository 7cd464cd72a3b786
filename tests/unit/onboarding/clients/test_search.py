"""Which files of clients are found, and what is read in them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcpd.errors import ConfigError
from mcpd.onboarding.clients import search
from mcpd.onboarding.clients.client import Client
from mcpd.onboarding.clients.search import ClientFile
from mcpd.onboarding.clients.table import BY_ID, CLIENTS
from tests.support.clients import FILES, WRITTEN, Home, entry, spelled, written


def names(files: list[ClientFile]) -> list[tuple[str, str, list[str]]]:
    return [(each.client.id, each.scope, [one.name for one in each.servers]) for each in files]


def test_every_client_is_found_by_its_file(home: Home) -> None:
    for client in CLIENTS:
        home.client(client.id, {f"of-{client.id}": entry("uvx", client.id)})
    assert names(home.found()) == [(each.id, "user", [f"of-{each.id}"]) for each in CLIENTS]


def test_the_ids_are_those_that_the_command_line_knows() -> None:
    assert list(BY_ID) == [
        "claude-code",
        "claude-desktop",
        "cursor",
        "vscode",
        "windsurf",
        "cline",
        "cline-cli",
        "roo-code",
        "zed",
        "codex",
        "gemini-cli",
        "opencode",
        "goose",
        "continue",
        "lm-studio",
        "copilot-cli",
        "crush",
        "qwen-code",
        "kiro",
        "amazon-q",
        "junie",
        "mcporter",
        "droid",
        "amp",
        "kimi-code",
        "antigravity",
    ]


@pytest.mark.parametrize("client", WRITTEN)
def test_a_file_that_a_program_wrote_is_read(home: Home, client: str) -> None:
    home.original(client)
    (file, *rest) = home.users(client)
    assert file.error is None
    assert all(each.scope == "local" for each in rest)
    servers = {each.name: each for each in file.servers}
    assert {each.why_not for each in servers.values()} == {None}
    local = servers.get("notes") or servers["clock"]
    assert local.entry["command"] == "uvx"
    assert local.entry["args"][0] == "run-it"
    if "remote" in servers:
        assert servers["remote"].entry["url"] == "https://mcp.example.invalid/mcp"


@pytest.mark.parametrize(
    ("client", "variable", "where"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("cline-cli", "CLINE_DIR", "data/settings/cline_mcp_settings.json"),
        ("gemini-cli", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("copilot-cli", "COPILOT_HOME", "mcp-config.json"),
        ("opencode", "OPENCODE_CONFIG_DIR", "opencode.jsonc"),
        ("crush", "CRUSH_GLOBAL_CONFIG", "crush.json"),
    ],
)
def test_the_environment_may_move_a_clients_file(
    home: Home, client: str, variable: str, where: str
) -> None:
    home.put(f"moved/{where}", written(BY_ID[client], {"x": entry("uvx")}))
    assert names(home.users(client)) == []
    home.env[variable] = str(home.path / "moved")
    assert names(home.users(client)) == [(client, "user", ["x"])]


def test_a_file_of_opencode_may_be_named(home: Home) -> None:
    path = home.put("mine.json", written(BY_ID["opencode"], {"x": entry("uvx")}))
    home.env["OPENCODE_CONFIG"] = str(path)
    assert names(home.users("opencode")) == [("opencode", "user", ["x"])]


@pytest.mark.parametrize(
    ("client", "path"),
    [
        ("claude-desktop", "~/Library/Application Support/Claude/claude_desktop_config.json"),
        ("vscode", "~/Library/Application Support/Code/User/mcp.json"),
        ("zed", "~/.config/zed/settings.json"),
        ("goose", "~/.config/goose/config.yaml"),
        ("cursor", "~/.cursor/mcp.json"),
    ],
)
def test_a_mac_has_files_elsewhere(client: str, path: str) -> None:
    place = BY_ID[client].user[0].path
    assert search.expanded(place, {"HOME": "/Users/me"}, "darwin") == path.replace("~", "/Users/me")


def test_the_configuration_directory_may_be_elsewhere() -> None:
    env = {"HOME": "/home/me", "XDG_CONFIG_HOME": "/x"}
    assert search.expanded("{cfg}/zed/settings.json", env, "linux") == "/x/zed/settings.json"
    env["XDG_CONFIG_HOME"] = "relative"
    assert search.expanded("{app}/x", env, "linux") == "/home/me/.config/x"


@pytest.mark.parametrize("wrong", [".claude/settings.json", ".claude/mcp.json", "mcp.json"])
def test_a_file_that_its_client_does_not_read_does_not_count(home: Home, wrong: str) -> None:
    home.put(wrong, {"mcpServers": {"ghost": entry("uvx")}})
    assert home.found() == []


def test_projects_have_files_of_their_own(home: Home) -> None:
    """Also those that Claude Code's own file names; the user's files are no project's."""
    home.client("cursor", {"mine": entry("uvx")})
    home.put("shop/.mcp.json", {"mcpServers": {"team": entry("uvx")}})
    home.put("shop/.vscode/mcp.json", {"servers": {"code": entry("uvx")}})
    home.put("named/.gemini/settings.json", {"mcpServers": {"gem": entry("uvx")}})
    local = {"mcpServers": {"local": entry("uvx")}}
    home.put(".claude.json", {"projects": {str(home.path / "named"): local, "/gone": {}}})
    assert names(home.found(home.path / "shop", home.path)) == [
        ("claude-code", "user", []),
        ("claude-code", "local", ["local"]),
        ("claude-code", "project", ["team"]),
        ("cursor", "user", ["mine"]),
        ("vscode", "project", ["code"]),
        ("gemini-cli", "project", ["gem"]),
    ]
    project = next(each for each in home.found() if each.scope == "local")
    assert project.project == str(home.path / "named")
    assert project.servers[0].path == ("projects", project.project, "mcpServers", "local")


def test_here_is_a_directory_and_its_parents() -> None:
    assert search.here("/a/b") == ["/a/b", "/a", "/"]


def test_the_more_important_file_of_opencode_counts(home: Home) -> None:
    home.client("opencode", {"x": entry("uvx", "new")})
    old = {
        "x": {"type": "local", "command": ["uvx", "old"]},
        "y": {"type": "local", "command": ["z"]},
    }
    home.put(".config/opencode/opencode.json", {"mcp": old})
    new, other = home.users("opencode")
    assert new.servers[0].entry["args"] == ["new"]
    shadowed, own = other.servers
    assert shadowed.is_shadowed
    assert str(home.file("opencode")) in (shadowed.why_not or "")
    assert own.entry == {"command": "z"}


def test_servers_of_opencode_2_stand_deeper(home: Home) -> None:
    content = {"servers": {"x": {"type": "local", "command": ["uvx"], "disabled": True}}}
    home.put(home.file("opencode"), {"mcp": content})
    (file,) = home.users("opencode")
    assert file.key == ("mcp", "servers")
    assert file.servers[0].entry == {"command": "uvx", "enabled": False}


def test_older_servers_of_vs_code_are_in_its_settings(home: Home) -> None:
    path = home.put(".config/Code/User/settings.json", '{\n // x\n "a": 1,\n}')
    assert home.users("vscode") == []
    path.write_text('{"mcp": {"servers": {"x": {"command": "uvx"}}}}')
    assert names(home.users("vscode")) == [("vscode", "user", ["x"])]


@pytest.mark.parametrize(
    ("client", "beside", "content"),
    [
        ("copilot-cli", ".copilot/settings.json", {"disabledMcpServers": ["off"]}),
        ("gemini-cli", None, {"mcp": {"excluded": ["off"]}}),
        ("gemini-cli", None, {"mcp": {"allowed": ["on"]}}),
        ("qwen-code", None, {"mcp": {"excluded": ["off"]}}),
    ],
)
def test_what_is_switched_off_elsewhere_is_off(
    home: Home, client: str, beside: str | None, content: dict[str, Any]
) -> None:
    more = {} if beside else content
    home.client(client, {"on": entry("uvx", "1"), "off": entry("uvx", "2")}, **more)
    if beside:
        home.put(beside, content)
    servers = home.entries(client)
    assert servers["off"]["enabled"] is False
    assert "enabled" not in servers["on"]


def test_a_name_that_stands_twice_is_not_guessed(home: Home) -> None:
    home.put(home.file("cursor"), (FILES / "odd" / "duplicate-key.json").read_bytes())
    (file,) = home.users("cursor")
    assert [(each.name, each.entry) for each in file.servers] == [("a", {})]
    assert "twice" in (file.servers[0].why_not or "")


def test_a_table_that_stands_twice_is_not_guessed(home: Home) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}}, "mcpServers": {"b": {"command": "x"}}}'
    home.put(home.file("cursor"), text)
    assert all(each.why_not for each in home.users("cursor")[0].servers)


def test_a_name_that_stands_twice_in_a_list_or_in_yaml_is_not_guessed(home: Home) -> None:
    one = json.dumps(spelled(BY_ID["continue"], "x", entry("uvx")))
    home.put(home.file("continue"), f"mcpServers:\n  - {one}\n  - {one}\n")
    home.put(home.file("goose"), "extensions:\n  x: {cmd: a}\n  x: {cmd: b}\n")
    for client in ("continue", "goose"):
        assert all("twice" in (each.why_not or "") for each in home.users(client)[0].servers)


def test_a_name_that_mcpd_cannot_have_stays(home: Home) -> None:
    home.client("cursor", {"a\nb": entry("uvx"), "": entry("uvx")})
    assert all(each.why_not for each in home.users("cursor")[0].servers)


BROKEN = [
    ("cursor", '{"mcpServers":{"n":{"command":"mcpctl",', 1),
    ("claude-code", '{\n  // strict\n  "mcpServers": {}\n}', 2),
    ("claude-desktop", '{\n "mcpServers": {},\n}', 2),
    ("gemini-cli", '{\n  "mcpServers": {"n": {"command": "uvx"},}\n}', 2),
    ("codex", "x = 1\n[mcp_servers.n]\ncommand = uvx\n", 3),
    ("goose", "extensions:\n  a: {cmd: uvx}\n\tb: 1\n", 3),
    ("cursor", '{"mcpServers": {"\u201cn\u201d": nope}}', 1),
]


@pytest.mark.parametrize(("client", "text", "line"), BROKEN)
def test_a_file_that_its_client_cannot_read_has_the_line(
    home: Home, client: str, text: str, line: int
) -> None:
    home.put(home.file(client), text)
    (file,) = home.users(client)
    assert file.error is not None
    assert file.error.details["line"] == line
    assert file.servers == ()


@pytest.mark.parametrize("client", ["vscode", "zed", "opencode", "copilot-cli", "cursor", "amp"])
def test_comments_and_commas_are_read_where_the_client_reads_them(home: Home, client: str) -> None:
    text = (FILES / "odd" / "jsonc-trailing.json").read_text()
    home.put(home.file(client), text.replace("mcpServers", BY_ID[client].key[0]))
    assert [each.name for each in home.users(client)[0].servers] == ["n"]


@pytest.mark.parametrize("client", ["claude-code", "gemini-cli", "codex"])
def test_a_byte_order_mark_is_no_part_of_the_text(home: Home, client: str) -> None:
    text = written(BY_ID[client], {"x": entry("uvx")})
    home.put(home.file(client), b"\xef\xbb\xbf" + text.encode())
    assert list(home.entries(client)) == ["x"]


@pytest.mark.parametrize(
    "text", ["", "[]", "5", '{"mcpServers": []}', '{"mcpServers": null}', "{}", "// nothing\n"]
)
def test_a_file_without_servers_has_none(home: Home, text: str) -> None:
    home.put(home.file("cursor"), text)
    assert names(home.users("cursor")) == [("cursor", "user", [])]


@pytest.mark.parametrize(("mode", "said"), [(0o600, False), (0o640, True), (0o644, True)])
def test_a_file_that_others_can_read_says_so(home: Home, mode: int, said: bool) -> None:
    home.client("cursor", {"x": entry("uvx")}, mode)
    assert home.users("cursor")[0].others_can_read is said


def test_a_file_that_anybody_can_write_is_not_read(home: Home) -> None:
    """It says what to run."""
    home.client("cursor", {"x": entry("uvx")}, 0o666)
    (file,) = home.users("cursor")
    assert file.error is not None
    assert file.servers == ()


@pytest.mark.parametrize(
    ("where", "client", "scope"),
    [
        (".cursor/mcp.json", "cursor", "user"),
        ("src/shop/.mcp.json", "claude-code", "project"),
        ("src/shop/.cursor/mcp.json", "cursor", "project"),
        ("elsewhere/some.json", "file", "user"),
    ],
)
def test_a_file_is_known_by_where_it_is(home: Home, where: str, client: str, scope: str) -> None:
    path = home.put(where, {"mcpServers": {"x": entry("uvx")}})
    (file,) = search.at(str(path), home.env)
    assert (file.client.id, file.scope, [each.name for each in file.servers]) == (
        client,
        scope,
        ["x"],
    )
    if scope == "project":
        assert file.project == str(home.path / "src/shop")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
def test_a_file_elsewhere_is_known_by_what_is_in_it(home: Home, client: Client) -> None:
    ending = {"toml": "toml", "yaml": "yaml"}.get(client.format, "json")
    text = written(client, {"x": entry("uvx", "a", env={"A": "1"})})
    path = home.put(f"elsewhere/some.{ending}", text)
    (file,) = search.at(str(path), home.env)
    assert [(each.name, each.entry) for each in file.servers] == [
        ("x", {"command": "uvx", "args": ["a"], "env": {"A": "1"}})
    ]


def test_a_file_that_is_not_there_is_an_error(home: Home) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        search.at(str(home.path / "nope.json"), home.env)


def test_what_vs_code_asks_for_can_be_answered(home: Home) -> None:
    asked = {"id": "key", "type": "promptString", "description": "The key"}
    home.client("vscode", {"x": entry("uvx", env={"K": "${input:key}"})}, inputs=[asked])
    (file,) = home.users("vscode")
    assert file.inputs == {"${input:key}": search.Input("The key", False)}
    answered = search.answered(file, {"${input:key}": "v$1"})
    assert answered.servers[0].entry["env"] == {"K": "v$$1"}
    assert search.answered(file, {}) == file


def test_a_link_is_one_file(home: Home) -> None:
    path = home.client("lm-studio", {"x": entry("uvx")})
    old = home.path / ".cache/lm-studio/mcp.json"
    old.parent.mkdir(parents=True)
    os.symlink(path, old)
    assert names(home.users("lm-studio")) == [("lm-studio", "user", ["x"])]


def test_a_directory_in_the_place_of_a_file_is_none(home: Home) -> None:
    Path(home.file("cursor")).mkdir(parents=True)
    assert home.found() == []


def test_a_name_that_stands_twice_has_no_answer(home: Home) -> None:
    text = '{"inputs": [{"id": "k", "password": true}], "servers": {"x": {}, "x": {}}}'
    home.put(home.file("vscode"), text)
    (file,) = home.users("vscode")
    assert file.inputs == {"${input:k}": search.Input("k", True)}
    assert search.answered(file, {"${input:k}": "v"}) == file


def test_the_history_of_a_client_may_be_long(home: Home) -> None:
    home.client("claude-code", {"x": entry("uvx")}, history="x" * 5 * 1024 * 1024)
    assert names(home.users("claude-code")) == [("claude-code", "user", ["x"])]


def test_extensions_of_a_client_are_not_among_its_servers(home: Home) -> None:
    home.put(home.file("goose"), "extensions:\n  a: {type: builtin}\n  b: {cmd: uvx}\n")
    assert names(home.users("goose")) == [("goose", "user", ["b"])]


def test_where_the_switches_cannot_be_read_all_are_on(home: Home) -> None:
    home.client("copilot-cli", {"x": entry("uvx")})
    home.put(".copilot/settings.json", "{")
    assert "enabled" not in home.entries("copilot-cli")["x"]


def test_a_path_whose_directory_is_not_set_is_none() -> None:
    assert search.expanded("{NOWHERE}/mcp.json", {"HOME": "/h"}, "linux") == ""
    assert search.expanded("{THERE}/mcp.json", {"HOME": "/h", "THERE": "/t"}, "linux") == (
        "/t/mcp.json"
    )


def test_a_file_that_goes_while_it_is_read_has_an_error(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, client = home.client("cursor", {"x": entry("uvx")}), BY_ID["cursor"]
    stat = os.stat

    def gone(place: Any, **more: Any) -> os.stat_result:
        if place == str(path):
            raise FileNotFoundError(2, "No such file")
        return stat(place, **more)

    monkeypatch.setattr(os, "stat", gone)
    (file,) = search._read(client, client.user[0], str(path), "user", None)
    assert "No such file" in str(file.error)
