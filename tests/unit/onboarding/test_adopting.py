"""Clients' entries run the bridge, and are put back: bytes, mode and link."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mcpd.editing import replace
from mcpd.editing.file import parse
from mcpd.errors import ConfigError
from mcpd.onboarding import originals
from mcpd.onboarding.adopting import Adopted, Bridge, Wanted, adopt, value
from mcpd.onboarding.clients.client import Client
from mcpd.onboarding.clients.launch import Connects
from mcpd.onboarding.clients.table import BY_ID, CLIENTS
from mcpd.onboarding.originals import kept
from mcpd.onboarding.own import Own
from mcpd.onboarding.plan import plan
from mcpd.onboarding.releasing import Released, adopted, by_path, in_force, release
from tests.support.clients import FILES, WRITTEN, Home, entry

BRIDGE = Bridge(program="/opt/bin/mcpctl")


def adopt_all(home: Home, *names: str, bridge: Bridge = BRIDGE, **more: Any) -> list[Adopted]:
    """Adopt what is found in the home directory, file by file."""
    made = plan(home.found(), Own(path="/own", table="mcpServers", entries={}), names)
    groups: dict[str, list[Wanted]] = {}
    for move in made.moves:
        wanted = Wanted(file=move.file, found=move.found, server=move.server)
        groups.setdefault(move.file.path, []).append(wanted)
    return [adopt(path, group, bridge, **more) for path, group in groups.items()]


def release_all() -> list[Released]:
    return [release(path, own) for path, own in by_path(in_force(kept())).items()]


def connects(home: Home, client: str) -> dict[str, Connects | None]:
    return {each.name: each.connects for file in home.users(client) for each in file.servers}


def state(path: Path) -> tuple[bytes, int, bool]:
    return path.read_bytes(), stat.S_IMODE(path.stat().st_mode), path.is_symlink()


def there_and_back(home: Home, path: Path) -> bytes:
    """Adopt, adopt again and release; return the file as it was in between."""
    before = state(path)
    (done,) = adopt_all(home)
    assert done.done
    assert done.changed_since == []
    during = state(path)
    assert during[0] != before[0]
    assert during[1:] == before[1:]
    time = path.stat().st_mtime_ns
    assert adopt_all(home) == []
    assert (state(path), path.stat().st_mtime_ns) == (during, time)
    (back,) = release_all()
    assert len(back.done) == len(done.done)
    assert back.left == []
    assert state(path) == before
    assert adopted(in_force(kept())) == []
    return during[0]


@pytest.mark.parametrize("mode", [0o600, 0o644])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
def test_every_client_is_adopted_and_released(home: Home, client: Client, mode: int) -> None:
    one = entry("uvx", "server-files", env={"TOKEN": "fake-secret"})
    path = home.client(client.id, {"files": one}, mode)
    during = there_and_back(home, path)
    assert b"fake-secret" not in during
    assert b"server-files" not in during


@pytest.mark.parametrize("client", WRITTEN)
def test_a_file_that_a_program_wrote_is_adopted_and_released(home: Home, client: str) -> None:
    during = there_and_back(home, home.original(client))
    assert b"fake-secret-1" not in during
    assert b"/opt/bin/mcpctl" in during


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
def test_a_link_stays_a_link(home: Home, client: Client) -> None:
    """Into somebody's dotfiles; nothing is left beside either."""
    path = home.client(client.id, {"files": entry("uvx", "x")}, 0o640)
    real = home.path / "dotfiles" / path.name
    real.parent.mkdir()
    os.rename(path, real)
    path.symlink_to(real)
    there_and_back(home, path)
    assert os.listdir(real.parent) == [path.name]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
def test_every_entry_is_in_the_clients_spelling(home: Home, client: Client) -> None:
    home.client(client.id, {"files": entry("uvx", "x"), "off": entry("uvx", "y", disabled=True)})
    adopt_all(home)
    assert connects(home, client.id) == {
        name: Connects("/opt/bin/mcpctl", name) for name in ("files", "off")
    }


def test_the_entry_connects_to_the_name_in_mcpd(home: Home) -> None:
    home.client("cursor", {"github": entry("uvx", "a")})
    home.client("vscode", {"github": entry("uvx", "b")})
    adopt_all(home, bridge=Bridge(program="/x/mcpctl", socket="/run/s"))
    assert connects(home, "vscode") == {
        "github": Connects("/x/mcpctl", "github-vscode", "/run/s"),
    }


EXTRAS: dict[str, dict[str, Any]] = {
    "cline": {"autoApprove": ["read"], "disabled": False, "timeout": 90, "type": "stdio"},
    "cline-cli": {"autoApprove": ["read"], "disabled": True},
    "roo-code": {"alwaysAllow": ["read"], "watchPaths": ["/x"], "timeout": 90},
    "gemini-cli": {"trust": True, "includeTools": ["read"], "timeout": 5000, "description": "d"},
    "copilot-cli": {"tools": ["*"], "type": "local"},
    "codex": {"enabled": True, "tool_timeout_sec": 60.0, "enabled_tools": ["r"], "required": True},
    "kiro": {"autoApprove": ["*"], "disabledTools": ["w"], "icon": "x.png"},
    "zed": {"source": "custom", "enabled": True},
    "opencode": {"enabled": True, "timeout": 250},
    "goose": {"enabled": True, "timeout": 300, "bundled": False},
}


def test_what_the_client_keeps_for_itself_stays(home: Home) -> None:
    for client, extra in EXTRAS.items():
        home.client(client, {"files": entry("uvx", client, env={"A": "1"}, **extra)})
    adopt_all(home)
    got = {c: home.users(c)[0].servers[0].content for c in EXTRAS}
    assert {c: {key: one.get(key) for key in EXTRAS[c]} for c, one in got.items()} == EXTRAS
    assert "uvx" not in json.dumps(got)


@pytest.mark.parametrize(
    ("client", "one", "kind"),
    [
        ("claude-code", {"type": "http", "url": "https://h"}, "stdio"),
        ("cursor", {"url": "https://h"}, None),
        ("windsurf", {"serverUrl": "https://h"}, None),
        ("opencode", {"type": "remote", "url": "https://h"}, "local"),
        ("copilot-cli", {"type": "http", "url": "https://h"}, "local"),
        ("goose", {"type": "streamable_http", "uri": "https://h", "enabled": True}, "stdio"),
        ("crush", {"type": "sse", "url": "https://h"}, "stdio"),
        ("kiro", {"type": "http", "url": "https://h"}, None),
    ],
)
def test_a_remote_entry_becomes_a_process(
    home: Home, client: str, one: dict[str, Any], kind: str | None
) -> None:
    home.client(client, {"far": one})
    adopt_all(home)
    (found,) = home.users(client)[0].servers
    assert found.connects == Connects("/opt/bin/mcpctl", "far")
    assert found.content.get("type") == kind
    assert "https://h" not in json.dumps(found.content)
    release_all()
    assert home.users(client)[0].servers[0].content == one


def test_comments_within_an_entry_stay(home: Home) -> None:
    data = (FILES / "odd" / "codex-before-add.toml").read_bytes()
    path = home.put(home.file("codex"), data)
    during = there_and_back(home, path).decode()
    for part in (
        '# my comment\nmodel = "gpt-5"   # trailing\n\n',
        "\n[mcp_servers.a] # keep me\n",
        "startup_timeout_sec = 20\n",
        "my_unknown = 1\n",
    ):
        assert part in during
    assert during.endswith('\n# between\n[profiles.p]\nmodel = "o3"\n')


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
def test_all_as_one_entry_and_back(home: Home, client: Client) -> None:
    path = home.client(client.id, {"a": entry("uvx", "a"), "b": entry("uvx", "b")})
    before = path.read_bytes()
    adopt_all(home, is_aggregate=True)
    assert connects(home, client.id) == {"mcpd": Connects("/opt/bin/mcpctl", None)}
    assert [each.name for _, each in adopted(in_force(kept()))] == ["a", "b"]
    release_all()
    assert path.read_bytes() == before


def test_one_entry_for_all_spares_one_of_this_name(home: Home) -> None:
    home.client("cursor", {"mcpd": entry("uvx", "other"), "a": entry("uvx", "a")})
    adopt_all(home, "a", is_aggregate=True)
    assert list(connects(home, "cursor")) == ["mcpd", "mcpd-all"]


def test_one_entry_for_all_is_undone_in_a_file_that_changed_since(home: Home) -> None:
    home.client("cursor", {"a": entry("uvx", "a"), "b": entry("uvx", "b")})
    adopt_all(home, "a", is_aggregate=True)
    adopt_all(home, "b", is_aggregate=True)
    path = home.file("cursor")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"since": 1}))
    release_all()
    content = json.loads(path.read_text())
    servers = {"a": entry("uvx", "a"), "b": entry("uvx", "b")}
    assert content == {"mcpServers": servers, "since": 1}


# -- what somebody else did meanwhile, or since ------------------------------------------------------


def edit(path: Path, change: Any) -> None:
    content = json.loads(path.read_text())
    change(content["mcpServers"])
    path.write_text(json.dumps(content, separators=(",", ":"), sort_keys=True))


def test_an_entry_that_changed_meanwhile_stays(home: Home) -> None:
    path = home.client("cursor", {"a": entry("uvx", "a"), "b": entry("uvx", "b")})
    made = plan(home.found(), Own(path="/own", table="mcpServers", entries={}))
    wanted = [Wanted(file=m.file, found=m.found, server=m.server) for m in made.moves]

    def change(servers: dict[str, Any]) -> None:
        servers["a"]["args"] = ["theirs"]
        servers["new"] = entry("uvx", "new")

    edit(path, change)
    done = adopt(str(path), wanted, BRIDGE)
    assert [each.found.name for each in done.changed_since] == ["a"]
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers["a"] == entry("uvx", "theirs")
    assert servers["new"] == entry("uvx", "new")
    assert servers["b"]["args"] == ["connect", "b"]


def test_a_file_that_was_laid_out_in_another_way_is_released_by_meaning(home: Home) -> None:
    path = home.client("cursor", {"a": entry("uvx", "a"), "b": entry("uvx", "b")})
    adopt_all(home)
    edit(path, lambda servers: servers.update(new=entry("uvx", "new")))
    (back,) = release_all()
    assert [each.name for each in back.done] == ["a", "b"]
    servers = {name: entry("uvx", name) for name in ("a", "b", "new")}
    assert json.loads(path.read_text())["mcpServers"] == servers


@pytest.mark.parametrize("client", ["cursor", "codex", "goose", "continue", "opencode"])
def test_what_came_since_stays(home: Home, client: str) -> None:
    path = home.client(client, {"a": entry("uvx", "a", env={"A": "1"}), "b": entry("uvx", "b")})
    before = path.read_bytes()
    adopt_all(home)
    comment = b"// since\n" if before.startswith(b"{") else b"# since\n"
    path.write_bytes(comment + path.read_bytes())
    release_all()
    assert path.read_bytes() == comment + before


def test_an_entry_that_was_changed_since_stays_and_is_named(home: Home) -> None:
    path = home.client("cline", {"a": entry("uvx", "a"), "b": entry("uvx", "b")})
    adopt_all(home)
    edit(path, lambda servers: servers["a"].update(autoApprove=["read"]))
    (back,) = release_all()
    assert [each.name for each in back.done] == ["b"]
    assert [each.name for each, _ in back.left] == ["a"]
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers["a"]["autoApprove"] == ["read"]
    assert [each.name for _, each in adopted(in_force(kept()))] == ["a"]


def test_an_entry_that_was_removed_since_does_not_come_back(home: Home) -> None:
    path = home.client("cursor", {"a": entry("uvx", "a"), "b": entry("uvx", "b")})
    adopt_all(home)
    edit(path, lambda servers: servers.pop("a"))
    (back,) = release_all()
    assert back.left == []
    assert list(json.loads(path.read_text())["mcpServers"]) == ["b"]


def test_a_file_that_is_gone_is_not_made(home: Home) -> None:
    path = home.client("cursor", {"a": entry("uvx", "a")})
    adopt_all(home)
    path.unlink()
    (back,) = release_all()
    assert [why for _, why in back.left] == ["the file is gone"]
    assert not path.exists()


def test_several_runs_are_undone_together(home: Home) -> None:
    path = home.client("cursor", {name: entry("uvx", name) for name in "abc"})
    before = path.read_bytes()
    for name in "abc":
        adopt_all(home, name)
    release_all()
    assert path.read_bytes() == before


def test_a_dry_run_of_a_release_writes_nothing(home: Home) -> None:
    path = home.client("cursor", {"a": entry("uvx", "a")})
    adopt_all(home)
    during, files = path.read_bytes(), len(kept())
    (own,) = by_path(in_force(kept())).values()
    assert [each.name for each in release(str(path), own, is_dry=True).done] == ["a"]
    assert (path.read_bytes(), len(kept())) == (during, files)


def test_a_path_of_mcpctl_that_is_gone_is_repaired(home: Home) -> None:
    path = home.client("opencode", {"a": entry("/gone/mcpctl", "connect", "a")})
    before = path.read_bytes()
    (file,) = home.users("opencode")
    wanted = Wanted(file=file, found=file.servers[0], server=None)
    adopt(str(path), [wanted], BRIDGE)
    assert connects(home, "opencode") == {"a": Connects("/opt/bin/mcpctl", "a")}
    release_all()
    assert path.read_bytes() == before


# -- the originals -----------------------------------------------------------------------------------


def test_originals_are_private_and_stay(home: Home) -> None:
    path = home.client("cursor", {"a": entry("uvx", "a")}, 0o644)
    before = path.read_bytes()
    place = Path(originals.directory(home.env))
    adopt_all(home)
    (first,) = kept()
    assert first.before == before
    assert Path(first.file).read_bytes().partition(b"\n")[2] == before
    assert stat.S_IMODE(os.stat(first.file).st_mode) == 0o600
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    release_all()
    adopt_all(home)
    release_all()
    assert len(kept()) == 4
    assert first in kept()


def test_what_is_adopted_is_known_since_when(home: Home) -> None:
    home.client("cursor", {"a": entry("uvx", "a")})
    adopt_all(home)
    ((original, each),) = adopted(in_force(kept()))
    assert (original.change.client, each.name, each.server) == ("cursor", "a", "a")
    assert original.change.when.endswith("Z")


def test_an_original_without_its_change_does_no_harm(home: Home) -> None:
    """Somebody ended adopt between the two."""
    path = home.client("cursor", {"a": entry("uvx", "a")})
    before = path.read_bytes()
    adopt_all(home)
    path.write_bytes(before)
    assert adopted(in_force(kept())) == []
    release_all()
    assert path.read_bytes() == before
    adopt_all(home)
    release_all()
    assert path.read_bytes() == before


def test_a_file_among_the_originals_that_is_none_is_left(home: Home) -> None:
    home.client("cursor", {"a": entry("uvx", "a")})
    adopt_all(home)
    Path(originals.directory(home.env), "notes.txt").write_text("mine")
    assert len(kept()) == 1


def test_without_an_original_nothing_is_written(home: Home) -> None:
    """The state directory cannot be written: the client's file stays."""
    path = home.client("cursor", {"a": entry("uvx", "a")})
    before = path.read_bytes()
    place = Path(originals.directory(home.env))
    place.parent.mkdir(parents=True)
    place.write_text("in the way")
    with pytest.raises(ConfigError, match="adopted"):
        adopt_all(home)
    assert path.read_bytes() == before


def test_numbers_of_any_size_come_back(home: Home) -> None:
    odd = '{"mcpServers": {"a": {"command": "uvx", "x": [1e400, 12345678901234567890123, 1.10]}}}'
    path = home.put(home.file("cursor"), odd)
    adopt_all(home)
    path.write_text("// since\n" + path.read_text())
    release_all()
    assert path.read_text() == "// since\n" + odd


def test_the_value_at_a_path() -> None:
    data = parse(b'{"a": [{"b": 1}]}', "json").data
    assert value(data, ("a", 0, "b")) == 1
    assert value(data, ("a", 1)) is None
    assert value(data, ("a", "b")) is None
    assert BY_ID["cursor"].id == "cursor"


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_release_that_was_not_written_can_be_repeated(
    home: Home, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    """Killed, or on a full disk, after the original was kept."""
    path = home.client("cursor", {"files": entry("uvx", "x")})
    before = path.read_bytes()
    adopt_all(home)
    if is_changed:
        path.write_bytes(path.read_bytes() + b"\n")
        before += b"\n"

    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(replace, "_placed", full)
        with pytest.raises(ConfigError, match="the disk is full"):
            release_all()
    (back,) = release_all()
    assert [each.name for each in back.done] == ["files"]
    assert path.read_bytes() == before
    assert release_all() == []
