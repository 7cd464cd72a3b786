"""How a problem is told."""

from __future__ import annotations

from mcpd.config.problems import Problem, key_text, printable


def test_a_problem_names_file_line_column_key_and_what_was_expected() -> None:
    problem = Problem(
        severity="error",
        file="/c.json",
        line=5,
        column=14,
        key="servers.x.args",
        message="expected a list",
    )
    assert str(problem) == ("/c.json, line 5, column 14: error: servers.x.args: expected a list")


def test_what_has_no_place_is_told_without_one() -> None:
    assert str(Problem(severity="error", file="/c.json", message="gone")) == "/c.json: error: gone"
    assert str(Problem(severity="warning", key="a", message="odd")) == "warning: a: odd"


def test_a_key_path_reads_as_it_is_typed() -> None:
    assert key_text(("mcpServers", "x", "args", 1)) == "mcpServers.x.args[1]"
    assert key_text(("servers", "my.server", "env")) == 'servers."my.server".env'


def test_nothing_acts_on_a_terminal() -> None:
    assert printable("é\x1b[31m\n\ud800") == "é\\x1b[31m\\n\\ud800"
