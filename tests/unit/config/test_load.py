"""Files found, merged and checked."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING

import pytest

from mcpd.config.entry import masked
from mcpd.config.explain import report
from mcpd.config.files.candidates import candidates
from mcpd.config.load import load

if TYPE_CHECKING:
    from tests.unit.config.conftest import Place


def test_without_any_file_there_are_no_servers_and_no_problems(place: Place) -> None:
    loaded = place.load()
    assert (loaded.entries, loaded.problems, loaded.broken, loaded.found) == ({}, (), False, ())
    assert loaded.files == (
        str(place.system / "mcp.json"),
        str(place.system / "config.toml"),
        str(place.user / "mcp.json"),
        str(place.user / "config.toml"),
    )


def test_where_files_are_looked_for() -> None:
    env = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/xdg"}
    assert candidates(None, env)[0] == "/etc/mcpd/mcp.json"
    assert candidates(None, env)[-1] == "/xdg/mcpd/config.toml"
    assert candidates(None, {**env, "MCPD_CONFIG": "/x.json"}) == ("/x.json",)
    assert candidates("/y.toml", {**env, "MCPD_CONFIG": "/x.json"}) == ("/y.toml",)


def test_a_later_entry_replaces_an_earlier_one_whole_and_keeps_its_place(place: Place) -> None:
    place.write("mcp.json", {"mcpServers": {"a": {"command": "1", "args": ["x"]}}}, of="system")
    place.write("config.toml", '[servers.b]\ncommand = "2"\n', of="system")
    place.write("mcp.json", {"mcpServers": {"c": {"command": "3"}, "b": {"command": "4"}}})
    place.write("config.toml", '\n[servers.a]\ncommand = "5"\n[mcp_servers.d]\ncommand = "6"')
    loaded = place.load()
    commands = {
        name: entry.config and entry.config.command for name, entry in loaded.entries.items()
    }
    assert commands == {"a": "5", "b": "4", "c": "3", "d": "6"}
    assert list(commands) == ["a", "b", "c", "d"]
    config = loaded.entries["a"].config
    assert config is not None
    assert config.args == ()
    assert [(each.name, Path(each.by_file).name) for each in loaded.replaced] == [
        ("b", "mcp.json"),
        ("a", "config.toml"),
    ]
    assert loaded.replaced[1].by_line == 2
    assert loaded.problems == ()


def test_a_replaced_entry_has_no_say_and_no_errors(place: Place) -> None:
    place.write("mcp.json", {"mcpServers": {"a": {"command": 5, "odd": 1}}})
    place.write("config.toml", '[servers.a]\ncommand = "x"\n')
    assert place.load().problems == ()


def test_the_daemons_tables_are_merged_by_key(place: Place) -> None:
    place.write("config.toml", "[daemon]\nlist_wait = 1\nwatch = false\n", of="system")
    place.write("config.toml", '[daemon]\nlist_wait = "2s"\n')
    daemon = place.load().daemon
    assert (daemon.list_wait, daemon.watch) == (2.0, False)


def test_the_tables_of_trust_are_merged_by_key(place: Place) -> None:
    place.write("config.toml", '[trust]\ntrusted_projects = ["/a"]\n', of="system")
    place.write("mcp.json", {"trust": {"unknown": 1}})
    loaded = place.load()
    assert loaded.trust.trusted_projects == ("/a",)
    assert [problem.key for problem in loaded.problems] == ["trust.unknown"]
    place.write("config.toml", "[trust]\ntrusted_projects = []\n")
    assert place.load().trust.trusted_projects == ()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.json", '{"mcpServers": {"x": {"command": "c"}}}'),
        ("a.json", '{"servers": {"x": {"command": "c"}}, "$schema": "s"}'),
        ("a.jsonc", '// c\n{"servers": {"x": {"command": "c"},},}'),
        ("a.JSON", '\ufeff{"servers":\r\n{"x": {"command": "c"}}}'),
        ("a.toml", '[servers.x]\ncommand = "c"'),
        ("a.toml", 'mcp_servers.x.command = "c"'),
        ("a.toml", '\ufeffservers = { x = { command = "c" } }'),
    ],
)
def test_every_spelling_means_the_same(place: Place, file: str, text: str) -> None:
    loaded = place.load(place.write(file, text))
    assert loaded.problems == ()
    config = loaded.entries["x"].config
    assert config is not None
    assert config.command == "c"


def test_a_given_file_is_used_alone(place: Place) -> None:
    place.write("mcp.json", {"mcpServers": {"a": {"command": "1"}}})
    given = place.write("given.json", {"mcpServers": {"b": {"command": "2"}}})
    assert list(place.load(given).entries) == ["b"]
    place.env["MCPD_CONFIG"] = str(given)
    assert list(place.load().entries) == ["b"]
    assert place.load().files == (str(given),)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("x.yaml", "servers: {}", r"\.json or \.toml"),
        ("config", "", r"\.json or \.toml"),
        (
            "x.json",
            '{"mcpServers": \n {"fake": {"command": "x" "y"}}}',
            "x.json, line 2, column 27: ",
        ),
        ("x.json", "[]", "expected a table"),
        ("x.json", "", "the file is empty"),
        ("x.toml", "a = \n", "x.toml, line 1, column 5: "),
    ],
)
def test_a_file_that_cannot_be_used_is_a_broken_configuration(
    place: Place, file: str, content: str, says: str
) -> None:
    loaded = place.load(place.write(file, content))
    assert loaded.broken
    [problem] = loaded.errors
    assert re.search(says, str(problem))
    assert str(place.user / file) in str(problem)


def test_a_given_file_that_is_not_there_is_an_error(place: Place) -> None:
    loaded = place.load(place.root / "nowhere.json")
    assert loaded.broken
    assert str(loaded.problems[0]) == f"{place.root}/nowhere.json: error: there is no such file"


def test_a_refused_file_is_broken_and_the_others_are_read(place: Place) -> None:
    place.write("mcp.json", {"mcpServers": {"a": {"command": "1"}}})
    place.write("config.toml", '[servers.b]\ncommand = "2"\n').chmod(0o666)
    loaded = place.load()
    assert loaded.broken
    assert list(loaded.entries) == ["a"]
    assert "chmod o-w" in str(loaded.problems[0])


def test_a_link_to_nothing_is_a_warning(place: Place) -> None:
    place.user.mkdir(parents=True)
    (place.user / "mcp.json").symlink_to("elsewhere.json")
    [problem] = place.load().problems
    assert (problem.severity, problem.message) == ("warning", "a link to nothing")


def test_one_bad_entry_leaves_the_others(place: Place) -> None:
    """
    B100: five servers, three of them with a mistake each.
    """
    given = place.write(
        "given.json",
        """{"mcpServers": {
            "good": {"command": "x"},
            "args": {"command": "x", "args": "-y"},
            "env": {"command": "x", "env": {"PORT": 8080}},
            "odd": {"command": "x", "commnd": "y"},
            "element": {"command": "x", "args": ["a", 5]}
        }}""",
    )
    loaded = place.load(given)
    assert [name for name, entry in loaded.entries.items() if entry.launch] == ["good", "odd"]
    assert [(problem.severity, problem.key, problem.line) for problem in loaded.problems] == [
        ("error", "mcpServers.args.args", 3),
        ("error", "mcpServers.env.env.PORT", 4),
        ("warning", "mcpServers.odd.commnd", 5),
        ("error", "mcpServers.element.args[1]", 6),
    ]
    error = loaded.entries["element"].error
    assert error is not None
    assert error.startswith(f"{given}, line 6, ")


@pytest.mark.parametrize(
    ("top", "key", "says"),
    [
        ({"mcpServer": {}}, "mcpServer", "did you mean mcpServers?"),
        ({"servers": []}, "servers", "expected a table of servers"),
        ({"daemon": 5}, "daemon", "expected a table"),
        ({"daemon": {"wach": True}}, "daemon.wach", "did you mean watch?"),
        ({"daemon": {"drain_timeout": -1}}, "daemon.drain_timeout", "seconds from 0"),
        ({"servers": {"a\nb": {"command": "x"}}}, 'servers."a\\nb"', "control characters"),
    ],
)
def test_what_is_wrong_outside_of_servers_is_told(
    place: Place, top: object, key: str, says: str
) -> None:
    loaded = place.load(place.write("given.json", top))
    assert not loaded.broken
    assert not loaded.entries
    [problem] = loaded.problems
    assert problem.key == key
    assert says in problem.message


def test_two_spellings_in_one_file_are_both_read(place: Place) -> None:
    given = place.write(
        "given.json",
        '{"servers": {"a": {"command": "1"}},\n "mcpServers": {"a": {"command": "2"}, "b": {"command": "3"}}}',
    )
    loaded = place.load(given)
    assert list(loaded.entries) == ["a", "b"]
    assert [(each.line, each.by_line) for each in loaded.replaced] == [(1, 2)]


def test_a_name_written_twice_in_one_table_is_a_warning(place: Place) -> None:
    given = place.write(
        "given.json", '{"servers": {"a": {"command": "1"},\n "a": {"command": "2"}}}'
    )
    loaded = place.load(given)
    config = loaded.entries["a"].config
    assert config is not None
    assert config.command == "2"
    assert [(problem.severity, problem.line) for problem in loaded.problems] == [("warning", 2)]


def test_servers_run_in_the_home_directory_unless_told_otherwise(place: Place) -> None:
    loaded = place.load(place.write("given.json", {"servers": {"a": {"command": "x"}}}))
    launch = loaded.entries["a"].launch
    assert launch is not None
    assert launch.cwd == place.env["HOME"]


def test_a_relative_directory_is_an_error_in_a_file(place: Place) -> None:
    """
    The daemon sits in ``/``; whatever the user meant, it is not that.
    """
    loaded = place.load(place.write("given.json", {"servers": {"a": {"command": "x", "cwd": "."}}}))
    assert loaded.entries["a"].launch is None
    assert "begins with" in str(loaded.entries["a"].error)


def test_an_unset_variable_says_since_when_the_environment_counts(place: Place) -> None:
    given = place.write("given.json", {"servers": {"a": {"command": "$NO"}}})
    loaded = load(str(given), place.env, since="10:22 today")
    assert "the daemon's environment, as it has been since 10:22 today" in str(loaded.problems[0])


def test_reading_json_imports_neither_tomllib_nor_difflib() -> None:
    """
    The daemon reads its configuration before it can answer anybody.
    """
    code = (
        "import sys; from mcpd.config.load import load; load('/nowhere.json', {'HOME': '/'});"
        "print({'tomllib', 'difflib', 'asyncio', 'ctypes', 'hashlib'} & set(sys.modules))"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_file_of_variables_is_below_env_and_is_found_beside_the_configuration(
    place: Place,
) -> None:
    """
    B142.
    """
    file = place.write("srv.env", "A=from-the-file\nB=from-the-file\nSHORT=x")
    file.chmod(0o600)
    server = {"command": "x", "env": {"B": "from-the-entry"}, "env_file": "srv.env"}
    place.write("mcp.json", {"mcpServers": {"x": server, "y": {**server, "env_file": "${F}"}}})
    place.env["F"] = "~/srv.env"
    found = place.load()
    entry = found.entries["x"]
    assert entry.launch is not None
    assert entry.launch.file_env == {"A": "from-the-file", "B": "from-the-file", "SHORT": "x"}
    assert entry.launch.env == {"B": "from-the-entry"}
    assert entry.secrets == {"from-the-file"}
    assert "from-the-file" not in str(masked(entry))
    assert "from-the-file" not in report(found)[0]
    beside = str(place.user / "~" / "srv.env")  # a variable's ~ is no home directory
    assert found.named_files == {str(file), beside}
    assert found.entries["y"].error is not None
    assert f"mcpServers.y.env_file: {beside}: there is no such file" in found.entries["y"].error


def test_a_disabled_server_needs_no_file_of_variables(place: Place) -> None:
    server = {"command": "x", "enabled": False, "env_file": "gone.env"}
    place.write("mcp.json", {"mcpServers": {"x": server}})
    assert not place.load().problems
