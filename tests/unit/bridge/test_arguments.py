"""The command line of ``mcpctl connect``."""

from __future__ import annotations

import pytest

from mcpd.bridge.arguments import LINGER_S, UsageError, parse


def test_nothing_at_all_is_the_aggregate():
    asked = parse([])
    assert (asked.server, asked.command, asked.linger, asked.may_start) == (
        None,
        None,
        LINGER_S,
        True,
    )
    assert (asked.socket, asked.config) == (None, None)


def test_options_stand_before_and_after_the_server():
    asked = parse(["--socket", "/s", "files", "--linger=0.5", "--no-start", "--config=c=d.json"])
    assert (asked.socket, asked.server, asked.linger) == ("/s", "files", 0.5)
    assert (asked.may_start, asked.config) == (False, "c=d.json")


def test_what_follows_two_dashes_is_the_command_as_it_is():
    asked = parse(["--no-start", "--", "sh", "-c", "--linger", "--", "-h"])
    assert asked.command == ["sh", "-c", "--linger", "--", "-h"]
    assert asked.linger == LINGER_S
    assert not asked.wants_help


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_asked_for(flag):
    assert parse([flag]).wants_help


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["a", "b"], "one server"),
        (["--"], "command is expected"),
        (["a", "--", "b"], "not both"),
        (["--lingr", "1"], "no such option: --lingr"),
        (["-x"], "no such option: -x"),
        (["--no-start=1"], "no such option"),
        (["--help=1"], "no such option"),
        (["--linger"], "expects a value"),
        (["--socket="], "expects a value"),
        (["--linger", "soon"], "--linger expects seconds"),
        (["--linger", "-1"], "--linger expects seconds"),
        (["--linger", "inf"], "--linger expects seconds"),
        (["--linger", "nan"], "--linger expects seconds"),
    ],
)
def test_a_line_that_means_nothing_is_refused(argv, message):
    with pytest.raises(UsageError, match=message):
        parse(argv)
