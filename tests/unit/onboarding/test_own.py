"""Where mcpd's own configuration gets servers."""

from __future__ import annotations

import stat
import tomllib

import pytest

from mcpd.errors import ConfigError
from mcpd.onboarding import own
from tests.support.clients import Home, entry

FILES = entry("uvx", "x")


def test_without_a_file_one_is_made(home: Home) -> None:
    found = own.read(None, home.env)
    assert (found.path, found.entries) == (str(home.path / ".config/mcpd/mcp.json"), {})
    assert own.add(found, {"files": FILES}, private=False)
    assert own.read(None, home.env).entries == {"files": FILES}
    path = home.path / ".config/mcpd/mcp.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_that_has_servers_gets_more(home: Home) -> None:
    home.put(".config/mcpd/config.toml", '[servers.old]\ncommand = "x" # mine\n')
    home.put(".config/mcpd/mcp.json", '{"daemon": {}}')
    found = own.read(None, home.env)
    assert found.path.endswith("config.toml")
    own.add(found, {"files": FILES | {"env": {"A": "1"}}}, private=False)
    text = (home.path / ".config/mcpd/config.toml").read_text()
    assert text.startswith('[servers.old]\ncommand = "x" # mine\n')
    assert list(tomllib.loads(text)["servers"]) == ["old", "files"]


def test_only_a_config_toml(home: Home) -> None:
    home.put(".config/mcpd/config.toml", "[daemon]\nwatch = true\n")
    found = own.read(None, home.env)
    assert (found.path.endswith("config.toml"), found.table) == (True, "servers")


def test_the_file_that_is_named_counts_alone(home: Home) -> None:
    home.put(".config/mcpd/mcp.json", {"mcpServers": {"a": FILES}})
    named = home.put("mine.json", {"servers": {"b": FILES}})
    for found in (
        own.read(str(named), home.env),
        own.read(None, home.env | {"MCPD_CONFIG": str(named)}),
    ):
        assert (found.path, found.table, list(found.entries)) == (str(named), "servers", ["b"])


def test_secrets_make_the_file_private(home: Home) -> None:
    path = home.put(".config/mcpd/mcp.json", {"mcpServers": {"a": FILES}}, 0o644)
    own.add(own.read(None, home.env), {"b": entry("y")}, private=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    own.add(own.read(None, home.env), {"c": entry("z")}, private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_comments_say_what_was_left_out_once(home: Home) -> None:
    path = home.put(".config/mcpd/mcp.json", {"mcpServers": {"a": FILES}})
    for name in ("b", "c"):
        found = own.read(None, home.env)
        own.add(found, {name: entry(name)}, private=False, comments=["x was left out:\n why"])
    text = path.read_text()
    assert text.count("// x was left out: why\n") == 1
    assert list(own.read(None, home.env).entries) == ["a", "b", "c"]


def test_without_a_new_server_there_are_no_new_comments(home: Home) -> None:
    path = home.put(".config/mcpd/mcp.json", {"mcpServers": {"a": FILES}})
    before = path.read_bytes()
    found = own.read(None, home.env)
    assert not own.add(found, {"a": FILES}, private=False, comments=["why"])
    assert path.read_bytes() == before


def test_a_name_that_was_taken_meanwhile_is_an_error(home: Home) -> None:
    found = own.read(None, home.env)
    own.add(found, {"a": FILES}, private=False)
    assert not own.add(found, {"a": FILES}, private=False)
    with pytest.raises(ConfigError, match="meanwhile"):
        own.add(found, {"a": entry("other")}, private=False)


def test_a_file_that_cannot_be_parsed_has_the_line(home: Home) -> None:
    home.put(".config/mcpd/mcp.json", "{\n nope")
    with pytest.raises(ConfigError, match="line 2"):
        own.read(None, home.env)
