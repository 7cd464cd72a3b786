"""An entry: what is started, what is shown, what is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpd.config.entry import ServerEntry, entry_from_json, masked
from mcpd.config.names import name_fault

ENV = {"HOME": "/home/ada", "T": "hunter2-hunter2"}


def entry(content: object, *, literal: bool = False) -> ServerEntry:
    return entry_from_json(content, name="s", env=ENV, cwd="/work/tree", literal=literal)


def test_variables_and_home_are_resolved_in_every_text() -> None:
    """
    B101, B104.
    """
    found = entry(
        {
            "command": "~/bin/x",
            "args": ["${T}", "~/a", "a~b"],
            "env": {"A": "$T!", "B": "~"},
            "cwd": "~/src",
        }
    )
    assert found.launch is not None
    assert found.launch.command == "/home/ada/bin/x"
    assert found.launch.args == ("hunter2-hunter2", "/home/ada/a", "a~b")
    assert found.launch.env == {"A": "hunter2-hunter2!", "B": "/home/ada"}
    assert found.launch.cwd == "/home/ada/src"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"command": "$NO"}, "command.command"),
        ({"command": "x", "args": ["a", "${NO}"]}, "command.args[1]"),
        ({"command": "x", "env": {"A": "${env:NO}"}}, "command.env.A"),
        ({"command": "x", "cwd": "${NO}"}, "command.cwd"),
    ],
)
def test_a_variable_that_is_not_set_names_the_field_and_the_way_out(
    content: object, key: str
) -> None:
    found = entry(content)
    assert found.config is not None
    assert found.launch is None
    assert found.error is not None
    assert found.error.startswith(f"error: {key}: the variable NO is not set")
    assert found.error.endswith("type `export NO=…`, then `mcpctl restart --daemon`")
    assert found.unset == "NO"


def test_of_several_errors_the_first_says_whether_a_variable_is_missing() -> None:
    found = entry({"command": "${NO", "args": ["$NO"]})
    assert "(and 1 more)" in str(found.error)
    assert found.unset is None


def test_a_disabled_server_needs_no_variables() -> None:
    """
    One file serves many machines, and not all of them have every token.
    """
    found = entry({"command": "x", "env": {"A": "${NO}"}, "disabled": True})
    assert (found.enabled, found.launch, found.error) == (False, None, None)
    assert [problem.severity for problem in found.problems] == ["warning"]


def test_a_command_that_comes_to_nothing_is_an_error() -> None:
    found = entry({"command": "${NO:-}"})
    assert found.launch is None
    assert "resolves to nothing" in str(found.error)


def test_the_directory_defaults_to_the_given_one_and_relative_ones_are_within() -> None:
    default, relative = entry({"command": "x"}), entry({"command": "x", "cwd": "sub"})
    assert default.launch is not None
    assert relative.launch is not None
    assert (default.launch.cwd, relative.launch.cwd) == ("/work/tree", "/work/tree/sub")


def test_literal_text_is_left_alone() -> None:
    """
    A shell has expanded a command line before we see it; a prompt in ``PS1`` is no variable.
    """
    found = entry({"command": "~x", "args": ["$T", "${", ""], "env": {"PS1": "$$ "}}, literal=True)
    assert found.launch is not None
    assert found.launch.command == "~x"
    assert found.launch.args == ("$T", "${", "")
    assert found.launch.env == {"PS1": "$$ "}


def test_what_is_shown_has_no_secret_in_it() -> None:
    """
    B139: not in its own place, and not where the same value stands again.
    """
    found = entry(
        {
            "command": "x",
            "args": [
                "--api-key",
                "literal-key-1",
                "copy=literal-key-1",
                "https://h/?token=tok-value",
            ],
            "env": {"A": "${T}", "TOKEN": "abc", "SAME": "hunter2-hunter2"},
            "call_timeout": 5,
        }
    )
    text = json.dumps(masked(found))
    for secret in ("literal-key-1", "tok-value", "hunter2", "abc"):
        assert secret not in text
    values = json.loads(text)
    assert values["args"] == ["--api-key", "***", "copy=***", "https://h/?token=***"]
    assert values["env"] == {"A": "${T}", "TOKEN": "***", "SAME": "***"}
    assert values["cwd"] == "/work/tree"
    assert values["call_timeout"] == 5.0
    assert found.secrets == {"literal-key-1", "tok-value", "hunter2-hunter2"}


def test_an_unresolved_entry_is_shown_as_written() -> None:
    found = entry({"command": "x", "args": ["${NO}/a"], "env": {"TOKEN": "pre-${NO}"}})
    assert masked(found)["args"] == ("${NO}/a",)
    assert masked(found)["env"] == {"TOKEN": "***"}


def test_a_bad_entry_shows_nothing() -> None:
    assert masked(entry({"command": 5})) == {}


def test_no_error_holds_a_value() -> None:
    """
    B139: a secret in the wrong place is still one.
    """
    secret = "s3cret-s3cret"
    found = entry(
        {
            "command": ["x", secret],
            "args": secret,
            "env": {"TOKEN": [secret], "B": {"C": secret}},
            "sharing": secret,
            "type": secret,
            "cwd": 5,
            "call_timeout": secret,
            "roots": secret,
            "url": f"https://x/?token={secret}",
        }
    )
    assert secret not in f"{found.error} {[str(problem) for problem in found.problems]}"
    unset = entry({"command": "x", "args": [f"${{NO}}{secret}", f"${{input:{secret}}}"]})
    assert unset.error is not None
    assert secret not in f"{unset.error} {[str(problem) for problem in unset.problems]}"


def test_the_first_error_stands_for_all() -> None:
    found = entry({"command": 5, "args": 6, "env": 7})
    assert str(found.error).endswith("(and 2 more)")


@pytest.mark.parametrize("name", ["a", "x" * 200, "my server", "große/Dinge", "a.b"])
def test_most_names_are_good(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\x7f", "a\x9b", "\ud800"])
def test_some_names_are_not(name: str) -> None:
    assert name_fault(name) is not None


def test_a_command_line_in_one_string_is_taken_apart_with_a_warning() -> None:
    """
    B107. Variables are resolved in the words, so that a value with blanks stays one.
    """
    found = entry({"command": "npx -y ${T} '~/a b'", "env": {"T2": "$T"}})
    assert found.launch is not None
    assert (found.launch.command, found.launch.args) == (
        "npx",
        ("-y", "hunter2-hunter2", "/home/ada/a b"),
    )
    assert found.error is None
    (problem,) = found.problems
    assert problem.severity == "warning"
    assert problem.key == "command.command"
    assert "command line" in problem.message
    assert masked(found)["args"] == ("-y", "${T}", "/home/ada/a b")


def test_what_a_shell_has_taken_apart_is_not_taken_apart_again() -> None:
    found = entry({"command": "npx -y foo"}, literal=True)
    assert found.launch is not None
    assert found.launch.command == "npx -y foo"


def test_a_command_line_whose_quotes_do_not_match_is_an_error() -> None:
    found = entry({"command": "npx 'foo"})
    assert found.error is not None
    assert "closes it" in found.error


def test_half_a_command_line_is_kept_and_told() -> None:
    """
    B107: the hint names the argument.
    """
    found = entry({"command": "npx -y", "args": ["x", "-p 80"]})
    assert found.launch is not None
    assert found.launch.command == "npx -y"
    keys = {problem.key: problem.severity for problem in found.problems}
    assert keys == {"command.command": "warning", "command.args[1]": "warning"}


def test_a_path_with_blanks_is_a_path(tmp_path: Path) -> None:
    """
    B107.
    """
    program = tmp_path / "My Tools" / "srv"
    program.parent.mkdir()
    program.write_text("")
    for command in (str(program), "My Tools/srv"):
        found = entry({"command": command, "cwd": str(tmp_path)})
        assert found.launch is not None
        assert (found.launch.command, found.launch.args) == (command, ())
        assert not found.problems


def test_an_entry_that_names_the_workspace_waits_for_it_and_is_shown_as_written() -> None:
    """
    B103.
    """
    found = entry(
        {
            "command": "${workspaceFolder}/bin/srv",
            "args": ["--name=${workspaceFolderBasename}", "--token=${workspaceFolder}/t"],
            "cwd": "${workspaceFolder}/sub",
        }
    )
    assert found.launch is not None
    assert found.launch.of_workspace
    assert found.shown is not None
    assert found.shown.command == "${workspaceFolder}/bin/srv"
    assert found.shown.args == ("--name=${workspaceFolderBasename}", "--token=***")
    assert found.shown.cwd == "${workspaceFolder}/sub"
    assert not entry({"command": "x"}).launch.of_workspace  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "key", "words"),
    [
        ({"sharing": "shared"}, "command.sharing", "leave it out"),
        ({"env_file": "${workspaceFolder}/.env"}, "command.env_file", "the same everywhere"),
    ],
)
def test_what_is_the_same_for_everybody_cannot_depend_on_the_workspace(
    values: dict[str, str], key: str, words: str
) -> None:
    """
    B103.
    """
    found = entry({"command": "x", "args": ["${workspaceFolder}"], **values})
    assert found.launch is None
    assert found.error is not None
    assert found.error.startswith(f"error: {key}: ")
    assert words in found.error


def test_a_server_of_a_workspace_cannot_start_with_the_daemon() -> None:
    found = entry({"command": "${workspaceFolder}/x", "start": "eager"})
    assert found.launch is not None
    (problem,) = found.problems
    assert (problem.severity, problem.key) == ("warning", "command.start")
