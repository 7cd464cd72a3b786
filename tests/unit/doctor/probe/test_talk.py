"""What a daemon is asked, and what comes of its silence."""

from __future__ import annotations

from typing import Any

from mcpd.doctor.probe.talk import talk
from tests.unit.client.fakedaemon import Failed, FakeDaemon, Silence

SERVERS = [
    {"name": "good", "state": "ready", "tools": 1},
    {"name": "never", "state": "stopped", "tools": None},
    {"name": "bad", "state": "failed", "tools": None},
    {"name": "off", "state": "disabled", "tools": 3},
]


def logs(*_: Any) -> Any:
    lines = [("mcpd", "a note"), ("stderr", "oh no")]
    return {"lines": [{"time": "", "source": s, "text": t} for s, t in lines]}


def test_no_server_is_asked_that_would_have_to_be_started() -> None:
    with FakeDaemon(
        status=lambda *_: {"servers": SERVERS}, list=lambda *_: {"servers": []},
        tools=lambda *_: {"tools": [{"name": "t"}]}, logs=logs,
    ) as daemon:  # fmt: skip
        found = talk(daemon.path)
        assert daemon.requests("mcpd/tools") == [{"server": "good"}]
    assert (found.why, found.pid) == (None, 4242)
    assert found.tools == {"good": [{"name": "t"}]}
    assert found.said == {"bad": ["oh no"]}


def test_an_error_leaves_that_part_out() -> None:
    def refuse(*_: Any) -> Any:
        raise Failed(-32603, "no")

    with FakeDaemon(
        status=lambda *_: {"servers": SERVERS[:1]}, list=refuse, tools=refuse
    ) as daemon:
        found = talk(daemon.path)
    assert found.listed is None and found.tools == {"good": []}


def test_silence_is_told_with_its_kind() -> None:
    def say_nothing(*_: Any) -> Any:
        raise Silence

    assert talk("/nowhere/at/all.sock").why == "absent"
    with FakeDaemon(status=say_nothing) as daemon:
        found = talk(daemon.path)
    assert (found.why, found.hello) == ("unresponsive", None)
