"""The command line of ``mcpctl add``, as people and other clients' documentation type it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from mcpctl.adding.line import Line
from mcpctl.commands.add import add_command

FILES = {"files": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}
FAR = {"far": {"url": "https://h.invalid/sse", "headers": {"X-Key": "k"}, "type": "sse"}}


def parsed(*words: str) -> dict[str, dict[str, Any]]:
    """The servers that a command line adds."""
    context = add_command.make_context("add", list(words))
    given = dict(context.params)
    return Line(given.pop("words"), given).typed()


@pytest.mark.parametrize(
    "line",
    [
        "files --env K=v -- npx -y x",  # codex mcp add
        "-e K=v -s user --transport stdio files -- npx -y x",  # claude mcp add
        "--scope user -e K=v files npx -y x",  # gemini mcp add
        "-e K=v files npx -- -y x",  # the same, for a program whose options gemini would take
        "files -e K=v -- npx -y x",
        "--env=K=v files npx -y x",
    ],
)
def test_a_command_is_added_however_other_clients_write_it(line: str) -> None:
    assert parsed(*line.split()) == FILES


@pytest.mark.parametrize(
    "line",
    [
        "--transport sse far https://h.invalid/sse -H X-Key:k -s user",
        "-t sse -H X-Key:k far https://h.invalid/sse",
        "far https://h.invalid/sse --header X-Key:k --transport sse",
        "far --url https://h.invalid/sse -H X-Key:k -t sse",  # codex mcp add
    ],
)
def test_a_url_is_added_with_options_on_either_side(line: str) -> None:
    assert parsed(*line.split()) == FAR


def test_the_options_of_a_server_are_its_own() -> None:
    added = parsed("x", "uvx", "server", "-e", "A=1", "--cwd", "/elsewhere", "--", "y")
    assert added == {
        "x": {"command": "uvx", "args": ["server", "-e", "A=1", "--cwd", "/elsewhere", "y"]}
    }
    added = parsed("x", "--", "npx", "tool", "--", "-v")
    assert added["x"]["args"] == ["tool", "--", "-v"]


def test_several_variables_may_follow_one_option() -> None:
    """
    Claude Code documents ``--env A=1 B=2``.
    """
    added = parsed("x", "-e", "A=1", "B=b=2", "--", "uvx")
    assert added["x"]["env"] == {"A": "1", "B": "b=2"}


def test_a_variable_without_a_value_is_taken_from_the_environment_when_it_runs() -> None:
    assert parsed("x", "-e", "TOKEN", "--", "uvx")["x"]["env"] == {"TOKEN": "${TOKEN}"}


def test_everything_that_can_be_said_of_a_command() -> None:
    line = "x -e A=b --cwd ~/src --sharing workspace --timeout 12 --disabled"
    line += " --include-tools read_*,list --exclude-tools read_all -- uvx y"
    assert parsed(*line.split())["x"] == {
        "command": "uvx",
        "args": ["y"],
        "env": {"A": "b"},
        "cwd": "~/src",
        "sharing": "workspace",
        "call_timeout": 12,
        "tools": {"allow": ["read_*", "list"], "deny": ["read_all"]},
        "enabled": False,
    }


@pytest.mark.parametrize(
    ("option", "header"),
    [
        (("--bearer", "${T}"), "Bearer ${T}"),
        (("--bearer-token-env-var", "T"), "Bearer ${T}"),
        (("-H", "Authorization: Basic a:b"), "Basic a:b"),
    ],
)
def test_a_token_is_a_header(option: tuple[str, ...], header: str) -> None:
    added = parsed("far", "https://h.invalid/mcp", *option)
    assert added["far"]["headers"] == {"Authorization": header}


def test_a_relative_path_means_the_same_in_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The daemon has another directory; a project's server starts in the project.
    """
    monkeypatch.chdir(tmp_path)
    assert parsed("x", "--cwd", "src", "--", "./server")["x"] == {
        "command": f"{tmp_path}/server",
        "cwd": f"{tmp_path}/src",
    }
    assert parsed("x", "-s", "project", "--", "./server")["x"]["command"] == "./server"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "what the server is called"),
        ("x", "what the server is called"),
        ("x https://h.invalid/mcp -e A=b", "--env is for a command"),
        ("x https://h.invalid/mcp --cwd /", "--cwd is for a command"),
        ("x https://h.invalid/mcp -t stdio", "this is a URL"),
        ("x -t http -- uvx", "is for a URL"),
        ("x -H A:b -- uvx", "are for a URL"),
        ("x -H A -- uvx", "expected a header"),
        ("x -e 1A=b -- uvx", "expected a variable"),
        ("x --url https://h.invalid -- uvx", "not both"),
        ("x -s local -- uvx", "user, or project"),
    ],
)
def test_what_cannot_be_meant_is_explained(line: str, says: str) -> None:
    with pytest.raises(click.UsageError) as error:
        parsed(*line.split())
    assert says in error.value.format_message()
