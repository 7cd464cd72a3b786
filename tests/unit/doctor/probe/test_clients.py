"""What the doctor finds in the files of clients."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpd.doctor.facts import ClientEntry
from mcpd.doctor.probe.clients import clients
from tests.support.clients import Home, entry


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.env["XDG_RUNTIME_DIR"] = str(tmp_path / "run")
    home.put(".config/mcpd/mcp.json", {"mcpServers": {"files": entry("uvx", "x")}})
    return home


def seen(home: Home) -> dict[str, ClientEntry]:
    return {each.name: each for each in clients(None, home.env).entries}


def test_entries_that_have_nothing_to_do_with_mcpd_are_left_out(home: Home) -> None:
    home.client("cursor", {"a": entry("uvx", "a"), "off": entry("uvx", "x", disabled=True)})
    assert seen(home) == {}


def test_copies_are_found(home: Home) -> None:
    home.client("cursor", {"folder": entry("uvx", "x")})
    copy = seen(home)["folder"]
    assert (copy.program, copy.server, copy.client) == (None, "files", "cursor")


def test_bridges_are_looked_at(home: Home) -> None:
    mcpctl = str(home.put("bin/mcpctl", "", 0o755))
    home.client(
        "cursor",
        {
            "files": entry(mcpctl, "connect", "files"),
            "all": entry(mcpctl, "connect"),
            "old": entry("/gone/mcpctl", "connect", "files"),
            "lost": entry(mcpctl, "connect", "lost"),
            "there": entry(mcpctl, "--socket", "/other.sock", "connect", "lost"),
        },
    )
    found = seen(home)
    assert [name for name, each in found.items() if each.is_gone] == ["old"]
    assert [name for name, each in found.items() if each.is_missing] == ["lost"]
    assert found["all"].server is None


def test_a_configuration_that_cannot_be_read_makes_no_server_missing(home: Home) -> None:
    home.put(".config/mcpd/mcp.json", "{")
    home.client(
        "cursor", {"files": entry(sys.executable, "connect"), "a": entry("mcpctl", "connect", "b")}
    )
    assert [each.is_missing for each in seen(home).values()] == [False]
