"""Which way a command line goes, and what its words mean."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from mcpctl.__main__ import bridge_arguments
from mcpctl.cli import COMMANDS, group
from mcpctl.commands.call import divide, progress_text


@pytest.mark.parametrize(
    ("argv", "bridge"),
    [
        (["connect"], []),
        (["connect", "files"], ["files"]),
        (["--socket", "/x", "connect", "a"], ["--socket", "/x", "a"]),
        (["--socket=/x", "--config", "c", "connect"], ["--socket=/x", "--config", "c"]),
        (["connect", "--", "cmd", "--help"], ["--", "cmd", "--help"]),
        (["connect", "--help"], None),
        (["--version", "connect"], None),
        (["status"], None),
        (["--socket", "connect"], None),
        ([], None),
    ],
)
def test_connect_goes_straight_to_the_bridge(argv: list[str], bridge: list[str] | None) -> None:
    assert bridge_arguments(argv) == bridge


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    context = group.make_context("mcpctl", [name], resilient_parsing=True)
    command = group.get_command(context, name)
    assert command is not None
    assert command.name == name
    assert f"mcpctl {name}" in (command.help or "") or "mcpctl --config" in (command.help or "")
    assert not command.get_short_help_str(65).endswith("...")


def test_a_call_loads_nothing_of_other_commands() -> None:
    """
    The whole process is to take less than 150 ms, and most of that is imports.
    """
    script = (
        "import sys, mcpctl.cli, mcpctl.commands.call, mcpd.client.control; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"asyncio", "msgspec", "structlog", "psutil", "logging", "subprocess"})
    ours = {name for name in loaded if name.startswith("mcpctl.commands.")}
    assert ours == {"mcpctl.commands.call"}


@pytest.mark.parametrize(
    ("words", "targets", "rest"),
    [
        (("files", "read"), [("files", "read")], ()),
        (("files", "read", "a=1"), [("files", "read")], ("a=1",)),
        (("my.files", "read"), [("my.files", "read")], ()),
        (("files.read", "a=1"), [("files", "read")], ("a=1",)),
        (("files.read",), [("files", "read")], ()),
        (("a.b.c", "x:=1"), [("a", "b.c"), ("a.b", "c")], ("x:=1",)),
        (("files", "a=1"), [], ("a=1",)),
    ],
)
def test_words_name_a_server_and_a_tool(
    words: tuple[str, ...], targets: list[tuple[str, str]], rest: tuple[str, ...]
) -> None:
    assert divide(words) == (targets, rest)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"progress": 1, "total": 4}, "25 %"),
        ({"progress": 3, "message": "files"}, "3 files"),
        ({"progress": 3, "total": 0}, "3"),
        ({"progress": "x", "total": "y"}, ""),
        ({"message": "files"}, "files"),
        ({"progress": None, "total": None, "message": None}, ""),
    ],
)
def test_progress_reads_as_a_share_or_a_count(told: dict[str, object], text: str) -> None:
    assert progress_text(told) == text


def test_every_command_but_the_bridge_prints_json() -> None:
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in COMMANDS}
    for name in ("service", "http", "token", "pins", "secret"):
        group_of = commands.pop(name)
        assert isinstance(group_of, click.Group)
        commands |= {f"{name} {each}": found for each, found in group_of.commands.items()}
    flags = {
        name: {flag for option in found.params for flag in option.opts}
        for name, found in commands.items()
        if found is not None
    }
    assert [name for name in flags if "--json" not in flags[name]] == ["connect"]
