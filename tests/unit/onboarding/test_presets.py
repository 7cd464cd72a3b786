"""Known servers: what the file says of each, and the entry that it becomes."""

from __future__ import annotations

import re

import pytest

from mcpd.config.entry import entry_from_json
from mcpd.onboarding import presets

PRESETS = presets.read()
EACH = pytest.mark.parametrize("name", PRESETS)


@EACH
def test_a_preset_is_a_package_or_a_url(name: str) -> None:
    one = PRESETS[name]
    assert [one.npm, one.pypi, one.url].count(None) == 2
    assert one.url is None or one.url.startswith("https://")
    assert one.description


@EACH
def test_a_preset_says_of_everything_it_needs_what_it_is(name: str) -> None:
    """
    Else nobody is asked for it, and the entry cannot be used.
    """
    one = PRESETS[name]
    named = {*one.places, *re.findall(r"\$\{(\w+)\}", str(one.env))}
    named |= {one.bearer} if one.bearer else set()
    assert named == set(one.needs)
    assert not (one.signs_in and (one.bearer or one.url is None))


@EACH
def test_an_entry_of_a_preset_is_one_that_the_daemon_reads(name: str) -> None:
    values = {
        need: "/given" if "://" not in text else text for need, text in PRESETS[name].needs.items()
    }
    entry = entry_from_json(
        PRESETS[name].entry(values), name=name, env={"HOME": "/home/me"}, cwd="/home/me"
    )
    assert entry.error is None
    assert entry.is_resolved
    assert not entry.problems


def test_a_variable_that_is_not_given_is_written_as_one() -> None:
    """
    A made-up value would be an error that only the server can find.
    """
    slack = PRESETS["slack"].entry({})
    assert slack["env"] == {"SLACK_MCP_XOXP_TOKEN": "${SLACK_MCP_XOXP_TOKEN}"}
    github = PRESETS["github"].entry({})
    assert github["headers"] == {"Authorization": "Bearer ${GITHUB_PERSONAL_ACCESS_TOKEN}"}


def test_what_is_given_stands_in_the_entry() -> None:
    slack = PRESETS["slack"].entry({"SLACK_MCP_XOXP_TOKEN": "xoxp-1"})
    assert slack["env"] == {"SLACK_MCP_XOXP_TOKEN": "xoxp-1"}
    files = PRESETS["filesystem"].entry({"DIRECTORY": "~/src"})
    assert files["args"] == ["-y", "@modelcontextprotocol/server-filesystem", "~/src"]


def test_an_argument_has_no_default() -> None:
    with pytest.raises(KeyError):
        PRESETS["filesystem"].entry({})


def test_a_search_finds_names_and_descriptions_in_any_case() -> None:
    assert {"git", "github", "gitlab"} <= presets.matching(PRESETS, "GIT").keys()
    assert "postgres" in presets.matching(PRESETS, "postgresql")
    assert presets.matching(PRESETS, "no such thing") == {}
