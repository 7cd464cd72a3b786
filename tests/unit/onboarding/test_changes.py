"""Servers added to mcpd's own configuration, removed, and switched on and off."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpd.errors import ConfigError
from mcpd.onboarding import changes, editor
from mcpd.onboarding.changes import Scope

JSON = """{
  // of all
  "mcpServers": {
    "first": {"command": "uvx"}, // tail of first
    // about second
    "second": {
      "command": "uvx",
      "args": ["b"],
    },
  },
}
"""
TOML = """# of all
[daemon]
log_level = "debug"  # why

# about first
[servers.first]
command = "uvx"      # tail

[servers.second]
command = "uvx"
"""
ONE = {"command": "uvx", "args": ["n"]}

Place = Callable[[str, str], Path]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Write a file of the user's configuration."""
    for name in ("MCPD_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "MCPD_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def write(name: str, text: str) -> Path:
        path = tmp_path / ".config" / "mcpd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
        return path

    return write


def test_a_server_goes_to_the_file_that_has_the_others(put: Place, tmp_path: Path) -> None:
    home = tmp_path / ".config" / "mcpd"
    assert Scope(None).add({"one": ONE}) == str(home / "mcp.json")
    assert json.loads((home / "mcp.json").read_text()) == {"mcpServers": {"one": ONE}}
    (home / "mcp.json").unlink()
    put("config.toml", "[daemon]\nwatch = true\n")
    assert Scope(None).add({"one": ONE}) == str(home / "config.toml")
    put("mcp.json", "{}\n")
    assert Scope(None).add({"two": ONE}) == str(home / "config.toml")
    assert list(tomllib.loads((home / "config.toml").read_text())["servers"]) == ["one", "two"]


@pytest.mark.parametrize(("name", "text"), [("mcp.json", JSON), ("config.toml", TOML)])
def test_adding_and_removing_leaves_what_was_there(put: Place, name: str, text: str) -> None:
    path = put(name, text)
    Scope(None).add({"new": ONE, "newer": {"url": "https://h.invalid/mcp"}})
    assert list(Scope(None).places()) == ["first", "second", "new", "newer"]
    assert all(
        line in path.read_text() for line in text.splitlines() if "//" in line or "#" in line
    )
    Scope(None).remove(["newer", "new"])
    assert path.read_text() == text


@pytest.mark.parametrize(("name", "text"), [("mcp.json", JSON), ("config.toml", TOML)])
def test_switching_off_and_on_again_leaves_the_bytes_of_before(
    put: Place, name: str, text: str
) -> None:
    path = put(name, text)
    Scope(None).switch(["first", "second"], is_on=False)
    assert path.read_text() != text
    Scope(None).switch(["second", "first"], is_on=True)
    assert path.read_text() == text
    Scope(None).switch(["second"], is_on=True)
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("off", "on"),
    [
        ('"disabled": true', ""),
        ('"enabled": false', ""),
        ('"disabled": true, "enabled": false', ""),
        ('"disabled": false, "enabled": true', '"disabled": false, "enabled": true'),
    ],
)
def test_either_key_switches(put: Place, off: str, on: str) -> None:
    """
    Both spellings count: a server is off if one of them says so.
    """
    path = put("mcp.json", f'{{"mcpServers": {{"x": {{"command": "y", {off}}}}}}}')
    Scope(None).switch(["x"], is_on=True)
    expected = json.loads(f"{{{on}}}")
    assert json.loads(path.read_text())["mcpServers"]["x"] == {"command": "y", **expected}
    Scope(None).switch(["x"], is_on=False)
    entry = json.loads(path.read_text())["mcpServers"]["x"]
    assert entry.get("enabled", True) is False or entry.get("disabled") is True
    assert entry.get("enabled") is not True
    assert entry.get("disabled") is not False


def test_a_name_that_is_taken_is_refused_in_whichever_file_it_stands(put: Place) -> None:
    path, other = put("mcp.json", JSON), put("config.toml", "[servers.third]\ncommand = 'x'\n")
    for name, file in (("second", path), ("third", other)):
        with pytest.raises(ConfigError, match=str(file)):
            Scope(None).add({"new": ONE, name: ONE})
    assert path.read_text() == JSON


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
def test_a_name_that_no_server_can_have_is_refused(put: Place, name: str) -> None:
    with pytest.raises(ConfigError, match="expected a name"):
        Scope(None).add({name: ONE})


def test_an_unknown_name_changes_nothing_and_near_ones_are_named(put: Place) -> None:
    path = put("mcp.json", JSON)
    for change in (
        lambda: Scope(None).remove(["first", "sekond"]),
        lambda: Scope(None).switch(["first", "sekond"], is_on=False),
    ):
        with pytest.raises(ConfigError, match="sekond") as error:
            change()
        assert error.value.hint == "did you mean second?"
        assert path.read_text() == JSON


def test_a_server_that_stands_in_two_files_is_gone_from_both(put: Place) -> None:
    """
    Else the one that was hidden would come to life.
    """
    put("mcp.json", JSON)
    put("config.toml", TOML)
    Scope(None).remove(["first"])
    assert list(Scope(None).places()) == ["second"]
    places = Scope(None).switch(["second"], is_on=False)
    assert [os.path.basename(place.file) for place in places] == ["config.toml"]


def test_one_that_stands_in_a_file_of_root_is_left_there(
    put: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    important = put("config.toml", TOML)
    other = put("mcp.json", JSON)
    order = [place.file for place in Scope(None).places()["first"]]
    hidden, counts = map(Path, order)
    assert {hidden, counts} == {important, other}
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != hidden)
    before = hidden.read_bytes()
    assert [place.file for place in Scope(None).remove(["first"])] == [str(counts)]
    assert hidden.read_bytes() == before
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != counts)
    with pytest.raises(ConfigError, match="you cannot change"):
        Scope(None).remove(["second"])


def test_a_broken_file_of_root_is_not_the_one_to_edit(
    put: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, own = put("config.toml", "{"), put("mcp.json", "{")
    files = [file for file in Scope(None).files if file in (str(broken), str(own))]
    assert Scope(None).own_file() == files[0]
    monkeypatch.setattr(os, "access", lambda path, _: path != files[0])
    assert Scope(None).own_file() == files[1]


def test_an_entry_that_is_no_table_cannot_be_switched(put: Place) -> None:
    path = put("mcp.json", '{"mcpServers": {"odd": 5}}')
    Scope(None).switch(["odd"], is_on=False)
    assert path.read_text() == '{"mcpServers": {"odd": 5}}'


def test_a_secret_in_the_clear_makes_the_file_private(put: Place) -> None:
    path = put("mcp.json", JSON)
    Scope(None).add({"a": {**ONE, "env": {"API_KEY": "${API_KEY}"}}})
    assert path.stat().st_mode & 0o777 == 0o644
    Scope(None).add({"b": {**ONE, "env": {"API_KEY": "sk-0123456789"}}})
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_does_not_parse_is_left_and_its_line_is_named(put: Place) -> None:
    path = put("mcp.json", '{\n  "mcpServers": {\n    "x" {}\n')
    for change in (
        lambda: Scope(None).add({"one": ONE}),
        lambda: Scope(None).remove(["x"]),
        lambda: Scope(None).switch(["x"], is_on=True),
    ):
        with pytest.raises(ConfigError, match="line 3"):
            change()
    assert path.read_text().endswith('"x" {}\n')
    assert Scope(None).own_file() == str(path)


def test_a_project_has_a_file_of_its_own(put: Place, tmp_path: Path) -> None:
    put("mcp.json", JSON)
    project = tmp_path / "shop"
    project.mkdir()
    Scope(None, str(project)).add({"first": ONE})
    assert json.loads((project / ".mcp.json").read_text()) == {"mcpServers": {"first": ONE}}
    Scope(None, str(project)).switch(["first"], is_on=False)
    with pytest.raises(ConfigError, match="second"):
        Scope(None, str(project)).remove(["second"])


def test_a_file_that_the_command_line_names_counts_alone(put: Place, tmp_path: Path) -> None:
    put("mcp.json", JSON)
    alone = tmp_path / "alone.toml"
    alone.write_text("")
    Scope(str(alone)).add({"first": ONE})
    assert tomllib.loads(alone.read_text()) == {"servers": {"first": ONE}}


def test_what_is_wrong_with_an_entry_is_found_before_it_is_added() -> None:
    found = changes.faults(
        "x", {"command": "uvx", "args": [5], "kommand": "y"}, {"HOME": "/home/me"}
    )
    assert [each.severity for each in found] == ["error", "warning"]
    unset = changes.faults("x", {"command": "uvx", "cwd": "${NOWHERE}"}, {"HOME": "/home/me"})
    assert unset == []


def test_variables_with_a_default_need_not_be_set() -> None:
    entry = {"command": "$A", "args": ["${B}", "${C:-c}", "${env:D}", "$$E"], "env": {"x": "${F}"}}
    assert changes.variables(entry) == ["A", "B", "D", "F"]


# -- what an editor has left ---------------------------------------------------------------------


def test_an_edit_is_checked_as_the_daemon_would_read_it(put: Place, tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    path.write_text('{"mcpServers": {"x": {"command": "uvx",\n "args": 5, "colour": "red"}}}')
    errors, warnings = editor.problems(str(path))
    assert [error.partition(":")[0] for error in errors] == ["line 2, column 10"]
    assert "colour" in warnings[0]
    path.write_text('{"mcpServers": {"x": {"command": "${NOWHERE}"}}}')
    errors, warnings = editor.problems(str(path))
    assert errors == []
    assert "NOWHERE" in warnings[0]


def test_an_edit_over_somebody_elses_is_not_saved(put: Place) -> None:
    path = put("mcp.json", JSON)
    file, before = editor.begin(None)
    path.write_text(JSON.replace("of all", "of others"))
    with pytest.raises(ConfigError, match="meanwhile"):
        editor.save(file, before, before + b"\n")
    assert "of others" in path.read_text()


def test_a_copy_that_was_changed_is_kept_until_it_is_saved(put: Place) -> None:
    path = put("mcp.json", JSON)
    file, before = editor.begin(None)
    with editor.copied(file, before) as copy:
        assert os.path.dirname(copy.path) == str(path.parent)
        assert os.stat(copy.path).st_mode & 0o777 == 0o600
    assert not os.path.exists(copy.path)
    with editor.copied(file, before) as copy:
        Path(copy.path).write_text("typed")
        assert copy.path in copy.told()
    assert Path(copy.path).read_text() == "typed"
    copy.forget()
    assert not os.path.exists(copy.path)


def test_who_has_no_file_yet_begins_with_an_empty_one(put: Place, tmp_path: Path) -> None:
    file, before = editor.begin(None)
    assert file == str(tmp_path / ".config" / "mcpd" / "mcp.json")
    assert json.loads(before) == {"mcpServers": {}}
    editor.save(file, before, before.replace(b"{\n  }", b'{"x": {"command": "y"}}'))
    assert list(Scope(None).places()) == ["x"]
