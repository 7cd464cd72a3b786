"""Command lines in one string: what is taken apart, and what is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpd.config import commandline


@pytest.mark.parametrize(
    ("command", "there", "words"),
    [
        ("npx -y foo", [], ["npx", "-y", "foo"]),
        ("npx\t-y  'a b' \"c d\" e\\ f", [], ["npx", "-y", "a b", "c d", "e f"]),
        ("My Server", ["My Server"], None),
        ("/opt/My Tools/srv", ["/opt/My Tools/srv"], None),
        ("/opt/My Tools/srv", [], None),
        ("/opt/My Tools/srv -x 1", ["/opt/My Tools/srv"], ["/opt/My Tools/srv", "-x", "1"]),
        ("/opt/My Tools/srv -x 1", ["/opt/My"], ["/opt/My", "Tools/srv", "-x", "1"]),
        ("/usr/bin/srv --flag", ["/usr/bin/srv"], ["/usr/bin/srv", "--flag"]),
        ("~/bin/srv -x ", ["~/bin/srv"], ["~/bin/srv", "-x"]),
    ],
)
def test_a_command_line_is_taken_apart_unless_it_is_a_path(
    command: str, there: list[str], words: list[str] | None
) -> None:
    """
    B107.
    """
    assert commandline.split(command, there.__contains__) == words


def test_a_quote_that_is_not_closed_is_told() -> None:
    with pytest.raises(commandline.Unbalanced):
        commandline.split("npx 'foo", lambda _: False)


@pytest.mark.parametrize(
    ("argument", "is_two"),
    [
        ("-y pkg", True),
        ("--port  80", True),
        ("-y", False),
        ("--name=a b", False),
        ("- item", False),
        ("a -y b", False),
        ("--", False),
        ("-- x", False),
        ("echo -n x", False),
    ],
)
def test_an_option_and_its_value_are_two_arguments(argument: str, is_two: bool) -> None:
    """
    B107.
    """
    assert commandline.is_option_and_value(argument) is is_two


def test_a_name_is_looked_for_on_the_path_and_a_path_from_the_directory(tmp_path: Path) -> None:
    (tmp_path / "My Server").write_text("")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srv").write_text("")
    path = os.pathsep.join(["/nowhere", str(tmp_path)])
    assert commandline.is_there("My Server", "/", path)
    assert not commandline.is_there("My Server", "/", "/nowhere")
    assert not commandline.is_there("bin", "/", path)
    assert commandline.is_there("bin/srv", str(tmp_path), None)
    assert not commandline.is_there("bin/srv", "/", path)
