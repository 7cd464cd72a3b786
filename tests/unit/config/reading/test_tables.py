"""A server's table in every dialect."""

from __future__ import annotations

import pytest

from mcpd.config.reading.findings import Findings, Table
from mcpd.config.reading.tables import daemon, server
from mcpd.config.schema import DaemonConfig, ServerConfig


def read(**content: object) -> tuple[ServerConfig | None, bool, list[str]]:
    findings = Findings("", None)
    config, enabled, _ = server({"command": "x", **content}, ("servers", "s"), "s", findings)
    return config, enabled, [str(problem) for problem in findings.problems]


def good(**content: object) -> ServerConfig:
    config, _, problems = read(**content)
    assert config is not None, problems
    return config


def test_defaults_are_those_of_the_schema() -> None:
    assert good() == ServerConfig(command="x")


@pytest.mark.parametrize(
    ("dialect", "canonical"),
    [
        ({"disabled": True}, {"enabled": False}),
        ({"disabled": False}, {}),
        ({"type": "stdio"}, {}),
        ({"transport": "local"}, {}),
        ({"type": ""}, {}),
        ({"transport": None}, {}),
        ({"url": "", "httpUrl": None}, {}),
        ({"transportType": "stdio"}, {}),
        ({"startup_timeout_sec": 20}, {"startup_timeout": 20}),
        ({"tool_timeout_sec": 90}, {"call_timeout": 90}),
        ({"timeout": 60}, {"call_timeout": 60}),
        ({"timeout": 1000}, {"call_timeout": 1000}),
        ({"timeout": "20m"}, {"call_timeout": 1200}),
        ({"enabled_tools": ["a"]}, {"tools": {"allow": ["a"]}}),
        ({"disabled_tools": ["a"]}, {"tools": {"deny": ["a"]}}),
        ({"excluded_tools": ["a"]}, {"tools": {"deny": ["a"]}}),
        ({"tools": ["a"]}, {"tools": {"allow": ["a"]}}),
        (
            {"tools": {"deny": ["a"]}, "disabled_tools": ["b"], "excluded_tools": ["c"]},
            {"tools": {"deny": ["a", "b", "c"]}},
        ),
    ],
)
def test_dialects_mean_the_same(dialect: dict[str, object], canonical: dict[str, object]) -> None:
    """
    B106, B042: snippets for other clients work as they are, and without a word.
    """
    assert good(**dialect) == good(**canonical)
    assert read(**dialect)[2] == []


@pytest.mark.parametrize(
    ("written", "meant"), [(1001, 1.001), (60000, 60), (600000, 600), (60000.0, 60)]
)
def test_a_large_timeout_is_milliseconds_and_says_so(written: float, meant: float) -> None:
    """
    B042: clients differ in the unit, and 600000 is never meant as a week.
    """
    config, _, problems = read(timeout=written)
    assert config is not None
    assert config.call_timeout == pytest.approx(meant)
    assert ["milliseconds" in problem for problem in problems] == [True]


@pytest.mark.parametrize(
    ("content", "chosen", "says"),
    [
        ({"call_timeout": 5, "timeout": 9}, {"call_timeout": 5}, "call_timeout counts"),
        ({"tool_timeout_sec": 5, "timeout": 9}, {"call_timeout": 5}, "another of its names counts"),
        (
            {"tools": {"allow": ["a"]}, "enabled_tools": ["b"]},
            {"tools": {"allow": ["a"]}},
            "tools.allow counts",
        ),
        ({"enabled": True, "disabled": True}, {"enabled": False}, "the server is off"),
        ({"enabled": False, "disabled": False}, {"enabled": False}, "the server is off"),
    ],
)
def test_a_contradiction_is_a_warning(
    content: dict[str, object], chosen: dict[str, object], says: str
) -> None:
    config, _, problems = read(**content)
    assert config is not None
    assert config == good(**chosen)
    assert len(problems) == 1
    assert says in problems[0]
    assert "warning" in problems[0]


@pytest.mark.parametrize("sharing", ["auto", "session", "workspace"])
def test_a_process_that_is_a_sessions_may_have_its_roots(sharing: str) -> None:
    config, _, problems = read(roots="session", sharing=sharing)
    assert config is not None
    assert problems == []


def test_a_process_that_all_share_has_no_sessions_roots() -> None:
    config, _, problems = read(roots="session", sharing="shared")
    assert config is None
    assert len(problems) == 1
    assert "servers.s.roots: " in problems[0]
    assert 'write sharing = "session" or "workspace"' in problems[0]


def test_everything_wrong_is_told_at_once() -> None:
    """
    B100: with the path of each.
    """
    config, _, problems = read(
        args=["a", 1],
        env={"PORT": 80},
        call_timeout=-1,
        restart={"window": "x"},
        tools={"allow": 1},
    )
    assert config is None
    assert [problem.split(": ")[1] for problem in problems] == [
        "servers.s.args[1]",
        "servers.s.env.PORT",
        "servers.s.call_timeout",
        "servers.s.restart.window",
        "servers.s.tools.allow",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"type": "pipe"}, "expected one of stdio, local, auto, "),
        ({"transport": "\x1b[2J\n"}, "not an unknown word"),
        ({"type": 5}, "not a number"),
    ],
)
def test_a_transport_that_is_not_known_is_an_error(content: dict[str, object], says: str) -> None:
    """
    With the words that are known, and without its value: that could be anything.
    """
    [problem] = read(**content)[2]
    assert says in problem
    assert "pipe" not in problem


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        ({"env": {"A": 1, "B": "b", "C": None, "": "x"}}, ["env.A", "env.C", 'env.""']),
        ({"args": [1, "b", {}]}, ["args[0]", "args[2]"]),
        (
            {"tools": {"allow": [1, 2], "deny": [3]}},
            ["tools.allow[0]", "tools.allow[1]", "tools.deny[0]"],
        ),
        ({"tools": [1, 2]}, ["tools[0]", "tools[1]"]),
        ({"disabled_tools": [1, "x", 2]}, ["disabled_tools[0]", "disabled_tools[2]"]),
        ({"roots": ["a", "file:///b", "c"]}, ["roots[0]", "roots[2]"]),
    ],
)
def test_every_bad_value_of_a_list_or_a_table_is_told(
    content: dict[str, object], keys: list[str]
) -> None:
    """
    Who is told of the first alone comes back for each of the others.
    """
    problems = read(**content)[2]
    assert [problem.split(": ")[1] for problem in problems] == [f"servers.s.{key}" for key in keys]


def test_a_command_that_is_missing_is_an_error_of_the_entry() -> None:
    findings = Findings("", None)
    config, _, _ = server({}, ("servers", "s"), "s", findings)
    assert config is None
    assert "command is missing" in str(findings.problems[0])


@pytest.mark.parametrize("content", [None, 5, "npx", ["npx"]])
def test_an_entry_that_is_no_table_is_an_error(content: object) -> None:
    findings = Findings("", None)
    assert server(content, ("servers", "s"), "s", findings) == (None, True, {})
    assert "expected a table" in str(findings.problems[0])


def test_an_entry_that_is_bad_may_still_say_that_it_is_off() -> None:
    assert read(disabled=True, args="x")[:2] == (None, False)


def test_unknown_keys_are_warnings_at_every_level() -> None:
    config, _, problems = read(startup_timout=3, restart={"backof": 1}, tools={"alow": []})
    assert config == good()
    assert all("warning" in problem for problem in problems)
    assert [problem.rpartition("mean ")[2] for problem in problems] == [
        "backoff?",
        "allow?",
        "startup_timeout?",
    ]


@pytest.mark.parametrize("content", [{"restart": "never"}, {"tools": "all"}, {"env": "A=B"}])
def test_a_table_that_is_something_else_is_an_error(content: dict[str, object]) -> None:
    config, _, problems = read(**content)
    assert config is None
    assert "expected a table" in problems[0]


def test_the_daemons_tables_are_merged_key_by_key() -> None:
    """
    A key that is wrong leaves what was there before.
    """
    findings = Findings("", None)
    first = Table({"list_wait": 1, "log_level": "debug"}, ("daemon",), findings, None)
    second = Table({"list_wait": 2, "log_level": "loud", "wach": 1}, ("daemon",), findings, None)
    assert daemon([first, second]) == DaemonConfig(list_wait=2.0, log_level="debug")
    assert [problem.severity for problem in findings.problems] == ["error", "warning"]
