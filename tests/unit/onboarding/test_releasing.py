"""What a release leaves alone, and a release that does not come to its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpd.editing import replace
from mcpd.editing.file import parse
from mcpd.errors import ConfigError
from mcpd.onboarding import originals
from mcpd.onboarding.adopting import Wanted, adopt, is_gone
from mcpd.onboarding.originals import kept
from mcpd.onboarding.releasing import adopted, by_path, in_force, release
from tests.support.clients import Home, entry
from tests.unit.onboarding.test_adopting import BRIDGE, adopt_all, edit, release_all

A, B, C = (entry("uvx", name) for name in "abc")


def servers(path: Path) -> Any:
    return json.loads(path.read_text())["mcpServers"]


@pytest.fixture
def cursor(home: Home) -> Path:
    """The file of a client with two servers."""
    return home.client("cursor", {"a": A, "b": B})


def test_what_is_released_is_in_force_no_more(home: Home, cursor: Path) -> None:
    adopt_all(home)
    release_all()
    assert in_force(kept()) == []


def test_a_release_that_fails_can_be_repeated(
    home: Home, cursor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cursor.read_bytes()
    adopt_all(home)
    with monkeypatch.context() as patch:
        patch.setattr(replace.privatefiles, "write_all", lambda fd, content: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            release_all()
    (back,) = release_all()
    assert [each.name for each in back.done] == ["a", "b"]
    assert cursor.read_bytes() == before


def test_an_original_that_is_half_written_does_not_count(home: Home, cursor: Path) -> None:
    adopt_all(home)
    (first,) = kept()
    Path(f"{first.file}.7.tmp").write_bytes(Path(first.file).read_bytes()[:-1])
    Path(f"{first.file}.7.tmp").chmod(0o600)
    assert kept() == [first]


@pytest.mark.parametrize("is_aggregate", [False, True])
@pytest.mark.parametrize("is_changed", [False, True])
def test_what_its_client_writes_again_after_a_release_is_released_again(
    home: Home, cursor: Path, is_aggregate: bool, is_changed: bool
) -> None:
    """It had read the file before, or somebody has restored it: to release twice is no mistake."""
    before = cursor.read_bytes()
    adopt_all(home, is_aggregate=is_aggregate)
    during = cursor.read_bytes()
    release_all()
    since = b"\n" if is_changed else b""
    for _ in range(2):
        cursor.write_bytes(during + since)
        assert [each.name for _, each in adopted(in_force(kept()))] == ["a", "b"]
        release_all()
        assert servers(cursor) == {"a": A, "b": B}
        assert (is_aggregate and is_changed) or cursor.read_bytes() == before + since
        assert in_force(kept()) == []


def test_what_is_written_again_is_put_back_from_its_newest_original(
    home: Home, cursor: Path
) -> None:
    adopt_all(home)
    release_all()
    edit(cursor, lambda servers: servers.update(a={**A, "note": "newer"}))
    adopt_all(home)
    during = cursor.read_bytes()
    release_all()
    cursor.write_bytes(during)
    release_all()
    assert servers(cursor)["a"] == {**A, "note": "newer"}


def test_what_was_released_and_is_gone_or_somebody_elses_stays_so(home: Home, cursor: Path) -> None:
    adopt_all(home)
    release_all()
    for content in ("{", '{"mcpServers": {"a": {"command": "/opt/bin/mcpctl"}}}'):
        cursor.write_text(content)
        assert in_force(kept()) == []
    cursor.unlink()
    assert in_force(kept()) == []


def test_one_of_several_entries_is_released_alone(home: Home, cursor: Path) -> None:
    adopt_all(home)
    ((original, entries),) = in_force(kept())
    assert [each.name for each in release(str(cursor), [(original, entries[:1])]).done] == ["a"]
    assert servers(cursor)["a"] == A
    assert servers(cursor)["b"]["args"] == ["connect", "b"]
    assert [each.name for _, each in adopted(in_force(kept()))] == ["b"]


def test_several_runs_of_one_entry_for_all_are_undone_to_the_byte(home: Home, cursor: Path) -> None:
    before = cursor.read_bytes()
    adopt_all(home, "a", is_aggregate=True)
    adopt_all(home, "b", is_aggregate=True)
    release_all()
    assert cursor.read_bytes() == before


def test_an_entry_that_is_back_already_is_settled(home: Home, cursor: Path) -> None:
    adopt_all(home)
    edit(cursor, lambda servers: servers.update(a=A, c=C))
    (back,) = release_all()
    assert ([each.name for each in back.done], back.left) == (["b"], [])
    assert servers(cursor) == {"a": A, "b": B, "c": C}
    assert in_force(kept()) == []


def test_one_entry_for_all_that_was_changed_since_stays_and_is_named(
    home: Home, cursor: Path
) -> None:
    adopt_all(home, is_aggregate=True)
    edit(cursor, lambda servers: servers["mcpd"].update(timeout=9))
    (back,) = release_all()
    assert {why for _, why in back.left} == {"the entry for all servers was changed since"}
    assert [*servers(cursor)] == ["mcpd"]


def test_an_entry_that_somebody_added_again_is_not_replaced(home: Home, cursor: Path) -> None:
    adopt_all(home, is_aggregate=True)
    edit(cursor, lambda servers: servers.update(a=C))
    release_all()
    assert servers(cursor) == {"a": C, "b": B}


def test_of_two_entries_of_one_name_in_a_list_none_is_touched(home: Home) -> None:
    path = home.client("continue", {"a": A})
    adopt_all(home)
    path.write_bytes(path.read_bytes() + path.read_bytes()[path.read_bytes().index(b"  - ") :])
    during = path.read_bytes()
    assert len(parse(during, "yaml").data["mcpServers"]) == 2
    (back,) = release_all()
    assert [why for _, why in back.left] == ["it was changed since it was adopted"]
    assert path.read_bytes() == during


def test_entries_of_a_list_come_back_in_a_file_that_changed_since(home: Home) -> None:
    path = home.client("continue", {"a": A, "b": B, "c": C})
    made = [each for each in home.found() if each.path == str(path)]
    adopt_all(home, "a", "b", is_aggregate=True)
    names = [each["name"] for each in parse(path.read_bytes(), "yaml").data["mcpServers"]]
    assert names == ["c", "mcpd"]
    path.write_bytes(path.read_bytes() + b"# since\n")
    release_all()
    names = [each["name"] for each in parse(path.read_bytes(), "yaml").data["mcpServers"]]
    assert sorted(names) == [each.name for each in made[0].servers]


def test_entries_of_a_file_that_cannot_be_read_are_still_adopted(home: Home, cursor: Path) -> None:
    adopt_all(home)
    cursor.write_text("{")
    assert [each.name for _, each in adopted(in_force(kept()))] == ["a", "b"]


def test_an_entry_with_a_date_is_adopted_and_released(home: Home) -> None:
    path = home.client("codex", {"a": A})
    path.write_bytes(path.read_bytes().rstrip() + b"\nsince = 2026-01-02\n")
    before = path.read_bytes()
    (done,) = adopt_all(home)
    assert len(done.done) == 1
    release_all()
    assert path.read_bytes() == before


def test_an_entry_that_was_adopted_twice_is_one(home: Home, cursor: Path) -> None:
    adopt_all(home, "a")
    wanted = [
        Wanted(file=file, found=found, server=None)
        for file in home.found()
        for found in file.servers
        if found.connects is not None
    ]
    adopt(str(cursor), wanted, BRIDGE)
    assert len(kept()) == 1  # nothing to repair
    other = type(BRIDGE)(program="/usr/bin/mcpctl")
    adopt(str(cursor), wanted, other)
    assert len(kept()) == 2
    assert [(original.id, each.name) for original, each in adopted(in_force(kept()))] == [
        (kept()[0].id, "a")
    ]


def test_a_file_that_goes_before_it_is_adopted_is_not_made(home: Home, cursor: Path) -> None:
    file = next(each for each in home.found() if each.path == str(cursor))
    wanted = [Wanted(file=file, found=found, server=found.name) for found in file.servers]
    cursor.unlink()
    done = adopt(str(cursor), wanted, BRIDGE)
    assert (done.done, done.changed_since) == ([], wanted)
    assert not cursor.exists()


def test_a_program_is_gone_if_it_cannot_be_run(tmp_path: Path) -> None:
    program = tmp_path / "mcpctl"
    assert is_gone(str(program))
    program.touch(0o644)
    assert is_gone(str(program))
    program.chmod(0o755)
    assert not is_gone(str(program))
    assert not is_gone("mcpctl-on-the-path")


def test_the_state_directory_of_somebody_else_holds_no_originals(home: Home, cursor: Path) -> None:
    before = cursor.read_bytes()
    place = Path(originals.directory(home.env))
    place.mkdir(parents=True, mode=0o700)
    place.chmod(0o777)
    with pytest.raises(ConfigError, match="others can write"):
        adopt_all(home)
    assert cursor.read_bytes() == before
    assert by_path(in_force(kept())) == {}
