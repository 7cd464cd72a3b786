"""What servers are told of their clients, and what becomes of a server that does not like it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Box, Json

PROGRAM = Path(__file__).parents[2] / "support" / "fussyserver.py"
UI = "io.modelcontextprotocol/ui"


def fussy(box: Box, how: str, **entry: Any) -> Box:
    box.servers["fussy"] = {"command": sys.executable, "args": [str(PROGRAM), how], **entry}
    return box.write()


def told(box: Box) -> Json:
    """Return what the server was told in the handshake that it accepted."""
    result = box.peer().request("mcpd/call", {"server": "fussy", "tool": "told"}, 30.0)
    found: Json = json.loads(result["content"][0]["text"])
    return found


@pytest.mark.parametrize(
    ("how", "entry", "version"),
    [
        ("strict", {}, "2025-11-25"),
        ("ends", {}, "2025-11-25"),
        ("old", {}, "2024-11-05"),
        ("named", {}, "2024-11-05"),
        ("old-code", {}, "2024-11-05"),
        ("gap", {"era": "legacy"}, "2024-11-05"),
        ("old", {"era": "legacy"}, "2024-11-05"),
    ],
)
def test_a_server_that_refuses_the_handshake_is_offered_less_in_the_same_start(
    box: Box, how: str, entry: Json, version: str
) -> None:
    fussy(box, how, extensions=[UI], **entry).up()
    said = told(box)
    assert said["protocolVersion"] == version
    is_reduced = how in ("strict", "ends")
    assert said["capabilities"]["elicitation"] == ({} if is_reduced else {"form": {}, "url": {}})
    status = box.status("fussy")
    assert (status["state"], status["restarts"], status["last_error"]) == ("ready", 0, None)
    left_out = ["elicitation.form", "elicitation.url", "extensions"] if is_reduced else []
    assert status["left_out"] == left_out


def test_what_a_server_accepted_is_known_to_the_next_daemon(box: Box) -> None:
    fussy(box, "strict").up()
    told(box)
    box.down()
    box.up()
    told(box)
    assert "elicitation.form" in box.ctl("status", "fussy").stdout
    doctor = json.loads(box.ctl("doctor", "--json").stdout)
    assert "server_refuses_capabilities" in {each["id"] for each in doctor["findings"]}
    log = box.peer().request("mcpd/logs", {"server": "fussy"})["lines"]
    assert not [line for line in log if "Unrecognized" in line["text"]]


def test_a_client_alone_with_its_server_is_seen_as_it_is(box: Box) -> None:
    """
    A client that cannot be asked gets the server's own fall-back, and its own list.
    """
    fussy(box, "asks", sharing="session").up()
    names = {}
    for capabilities in ({}, {"elicitation": {}}, {"extensions": {UI: {}}}, {}):
        session = box.session("fussy", capabilities=capabilities)
        listed = session.request("tools/list")["tools"]
        names[json.dumps(capabilities)] = [tool["name"] for tool in listed]
        said = json.loads(session.text("told"))
        assert said["capabilities"] == capabilities
        assert said["clientInfo"]["name"] == "tests"
    assert list(names.values()) == [["told"], ["told", "ask"], ["told", "chart"]]
    assert told(box)["capabilities"] == {}, "control calls have a process of their own"


def test_a_server_of_many_is_told_that_everything_can_be_asked(box: Box) -> None:
    fussy(box, "asks").up()
    session = box.session("fussy", capabilities={})
    assert len(session.request("tools/list")["tools"]) == 2
    assert told(box)["capabilities"] == {"sampling": {}, "elicitation": {"form": {}, "url": {}}}


def test_a_server_of_many_is_told_of_the_extensions_of_its_entry(box: Box) -> None:
    fussy(box, "asks", extensions=[UI]).up()
    session = box.session("fussy", capabilities={})
    assert len(session.request("tools/list")["tools"]) == 3
    assert told(box)["capabilities"]["extensions"] == {UI: {}}


@pytest.mark.parametrize("sharing", ["shared", "session"])
def test_nothing_is_invited_that_would_be_refused(box: Box, sharing: str) -> None:
    fussy(box, "asks", interactive="off", sharing=sharing).up()
    session = box.session("fussy", capabilities={"elicitation": {}, "sampling": {}})
    assert [tool["name"] for tool in session.request("tools/list")["tools"]] == ["told"]
    assert json.loads(session.text("told"))["capabilities"] == {}
