"""The daemon's log is written in the form that the configuration asks for."""

from __future__ import annotations

import json
from typing import Any

from tests.support.daemon import Box
from tests.support.waiting import wait_until


def logged(box: Box) -> list[dict[str, Any]]:
    """Return the lines of a log of objects."""
    return [json.loads(line) for line in box.tail(1 << 20).splitlines()]


def shown(box: Box) -> list[str]:
    """Return the texts that ``mcpd/logs`` gives."""
    return [line["text"] for line in box.peer().request("mcpd/logs", {"lines": 99})["lines"]]


def test_json_is_one_object_for_each_line(box: Box) -> None:
    box.settings["log_format"] = "json"
    box.fake("fake").fake("wrong", args="wrong").up()
    box.session("fake").text("pid")
    texts = shown(box)
    assert box.down() == 0
    lines = logged(box)
    assert [line["event"] for line in lines[:2]] == ["config.error", "daemon.started"]
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    assert lines == sorted(lines, key=lambda line: line["time"])
    (ready,) = (line for line in lines if line["event"] == "server.ready")
    assert (ready["level"], ready["server"], type(ready["pid"])) == ("info", "fake", int)
    assert f"info    daemon.started pid={box.daemon and box.daemon.pid} " in texts[1]
    assert any(text.startswith("info    server.ready server=fake pid=") for text in texts)


def test_a_reload_changes_the_form(box: Box) -> None:
    box.settings["watch"] = False
    box.up()
    wait_until(lambda: "daemon.started" in box.tail())
    box.settings["log_format"] = "json"
    box.write().peer().request("mcpd/reload", timeout=30.0)
    assert box.down() == 0
    first, *_, last = box.tail().splitlines()
    assert "info    daemon.started pid=" in first
    assert json.loads(last)["event"] == "daemon.stopped"


def test_a_daemon_that_ends_at_once_writes_all_its_lines(box: Box) -> None:
    """
    Lines are kept until the library is imported, which is after the first answers.
    """
    box.up()
    assert box.down() == 0
    events = [line.split()[2] for line in box.tail().splitlines()]
    assert events == ["daemon.started", "daemon.draining", "daemon.stopped"]
