"""A line of the daemon's log has one of two forms, and both are read back alike."""

from __future__ import annotations

import json

import pytest

from mcpd.logfiles.daemonlog import LINE_BYTES
from mcpd.logfiles.line import LogLine
from mcpd.observe.form import Form, parse

TIME = "2026-01-02T03:04:05.678Z"
ODD = {"server": "a b", "took": 1.5, "number": 7, "flag": True, "nothing": None, "text": "\ud800 é"}


def test_console_is_time_level_event_and_keys():
    line = Form().encode(TIME, "info", "server.ready", ODD).decode()
    said = r'server="a b" took=1.5 number=7 flag=True text="? é"'
    assert line == f"{TIME} info    server.ready {said}\n"


def test_json_is_one_object_with_time_level_and_event_first():
    line = Form("json").encode(TIME, "info", "server.ready", ODD)
    members = json.loads(line)
    assert list(members) == ["time", "level", "event", "server", "took", "number", "flag", "text"]
    assert members | {"time": TIME, "took": 1.5, "flag": True, "text": "? é"} == members
    assert line.endswith(b"}\n")


def test_a_value_never_becomes_a_line_of_its_own():
    for name in ("console", "json"):
        line = Form(name).encode(TIME, "info", "x", {"text": "two\nlines \x1b[31m"})
        assert line.count(b"\n") == 1
        assert b"two\\nlines \\u001b[31m" in line


@pytest.mark.parametrize("name", ["console", "json"])
def test_a_line_is_no_longer_than_a_pipe_takes_at_once(name: str):
    keys = {"error": "é" * 9000, "reason": "x" * 3000, "server": "files"}
    line = Form(name).encode(TIME, "error", "task.crashed", keys)
    assert len(line) <= LINE_BYTES
    assert "…" in line.decode()
    if name == "json":
        assert json.loads(line)["server"] == "files"


def test_what_is_read_back_does_not_depend_on_the_form():
    """
    `mcpctl logs` shows the same lines, also from a file that has both forms.
    """
    texts = {
        parse(Form(name).encode(TIME, "warning", "server.crashed", ODD).rstrip(b"\n"))
        for name in ("console", "json")
    }
    said = 'warning server.crashed server="a b" took=1.5 number=7 flag=True text="? é"'
    assert texts == {LogLine(TIME, "mcpd", said)}


@pytest.mark.parametrize("foreign", ['  File "x.py", line 1', '{"time": 3', '{"time":"x"}', "{}"])
def test_a_line_of_somebody_elses_has_no_time(foreign: str):
    assert parse(foreign.encode()) == LogLine("", "mcpd", foreign)


def test_missing_lines_are_told_in_the_form_of_the_others():
    assert Form().note(3) == b"[3 lines are missing here]\n"
    members = json.loads(Form("json").note(3))
    assert (members["event"], members["lines"]) == ("log.lines_missing", 3)
