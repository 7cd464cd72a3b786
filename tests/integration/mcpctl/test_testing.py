"""``mcpctl test``: each step of a start, with real servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd import exits
from tests.support.daemon import Box


def outcome_of(box: Box, name: str) -> tuple[int, dict[str, Any]]:
    done = box.ctl("test", name, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, found


def steps(found: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(one["step"], one["ok"]) for one in found["steps"]]


def test_a_server_that_works_has_done_all_steps(box: Box) -> None:
    """
    Also one that runs already: its last start counts.
    """
    box.fake("fake").up()
    for _ in range(2):
        status, found = outcome_of(box, "fake")
        assert status == exits.DONE
        assert steps(found) == [("start", True), ("handshake", True), ("list", True)]
        assert all(one["ms"] >= 0 for one in found["steps"])
    assert found["server"] == "fake"
    assert found["ok"] is True
    assert found["tools"] > 0
    shown = box.ctl("test", "fake").stdout
    assert "fake works: " in shown
    assert f"{found['tools']} tools" in shown


@pytest.mark.parametrize(
    ("flags", "more", "status", "failed"),
    [
        (("--crash-at-start", "3"), {}, exits.NO_SERVER, "handshake"),
        (("--mute",), {"startup_timeout": 0.5, "era": "legacy"}, exits.TIMED_OUT, "handshake"),
        ((), {"command": "/nowhere/server"}, exits.NO_SERVER, "start"),
    ],
    ids=["crash", "silence", "no program"],
)
def test_the_step_that_failed_is_the_last_one(
    box: Box, flags: tuple[str, ...], more: dict[str, Any], status: int, failed: str
) -> None:
    box.fake("fake", *flags, **more).up()
    code, found = outcome_of(box, "fake")
    assert code == status
    assert found["ok"] is False
    assert steps(found)[-1] == (failed, False)
    assert all(ok for _, ok in steps(found)[:-1])
    assert found["error"]["data"]["server"] == "fake"
    shown = box.ctl("test", "fake")
    assert shown.returncode in (status, exits.NO_SERVER)
    assert failed in shown.stdout
    assert "fake" in shown.stderr


def test_a_server_that_cannot_be_started_at_all_fails_in_its_first_step(box: Box) -> None:
    box.fake("off", enabled=False).up()
    code, found = outcome_of(box, "off")
    assert code == exits.NO_SERVER
    assert steps(found) == [("start", False)]
    assert "disabled" in found["error"]["message"]


def test_a_name_that_is_not_known_is_an_error(box: Box) -> None:
    box.fake("fake").up()
    done = box.ctl("test", "fakke")
    assert done.returncode == exits.NO_SERVER
    assert "fake" in done.stderr
