"""Problems with their places, and tables read key by key."""

from __future__ import annotations

import pytest

from mcpd.config.reading.findings import Findings, Table, nearest
from mcpd.config.reading.values import count, texts
from mcpd.formats.jsonc import parse


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("startup_timout", "startup_timeout"),
        ("startupTimeout", "startup_timeout"),
        ("Args", "args"),
        ("stop-grace", "stop_grace"),
        ("xyzzy", None),
    ],
)
def test_a_mistyped_key_finds_the_one_that_was_meant(word: str, meant: str | None) -> None:
    assert nearest(word, ["startup_timeout", "args", "stop_grace", "env"]) == meant


def test_an_error_stands_at_the_value_and_a_warning_at_the_key() -> None:
    findings = Findings("/c.json", parse('{"n": -1,\n "m": 2}'))
    table = Table({"n": -1, "m": 2}, (), findings, None)
    assert table.read_all({"n": count}) == {}
    table.warn_of_unknown(["n"])
    error, warning = findings.problems
    assert (error.severity, error.line, error.column, error.key) == ("error", 1, 7, "n")
    assert (warning.severity, warning.line, warning.column, warning.key) == ("warning", 2, 2, "m")


def test_an_error_within_a_value_has_the_path_of_the_part() -> None:
    findings = Findings("/c.json", parse('{"args": ["a",\n 5]}'))
    assert Table({"args": ["a", 5]}, (), findings, "x").read("args", texts) is None
    [error] = findings.problems
    assert (error.key, error.line, error.server) == ("args[1]", 2, "x")
