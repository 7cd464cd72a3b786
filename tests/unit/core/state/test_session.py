"""What is kept of one connection."""

from __future__ import annotations

import pytest

from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Settings
from mcpd.core.mcp.client_info import CLIENT_INFO_BYTES
from mcpd.core.state.session import Session
from mcpd.core.wire.memory import Memory, Share
from mcpd.ids import SessionId
from tests.support.transcript import USER
from tests.unit.core.mux.world import World

EFFECTS = Context(Settings(version="1"), lambda name, known: [])


@pytest.mark.parametrize(
    ("own", "level", "wants"),
    [
        (None, "debug", False),
        (None, "info", True),
        ("error", "warning", False),
        ("error", "error", True),
        ("error", "emergency", True),
        ("debug", "debug", True),
        ("emergency", "of its own", True),
    ],
)
def test_each_session_hears_what_it_asked_for(own: str | None, level: str, wants: bool):
    """
    B090: `info` and above where it never asked; levels that nobody knows are not held back.
    """
    session = Session(EFFECTS, SessionId(1), USER, Share(Memory(10**9)))
    session.level = own
    assert session.wants_log(level) is wants


@pytest.mark.parametrize(
    ("version", "may_omit"), [(None, False), ("2025-06-18", False), ("2025-11-25", True)]
)
def test_errors_without_an_id_are_for_those_who_know_them(version: str | None, may_omit: bool):
    session = Session(EFFECTS, SessionId(1), USER, Share(Memory(10**9)))
    session.version = version
    assert session.may_omit_id is may_omit


def test_what_a_client_says_of_itself_is_no_longer_than_can_be_kept():
    """
    Capabilities, names and tokens of megabytes were kept for each session, counted nowhere.
    """
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo", "!! join 2 echo")
    long = "x" * CLIENT_INFO_BYTES
    said = world.request(1, 1, "tools/call", name="echo", _meta={"trace": long})
    assert "_meta has more than 65536 bytes" in said[0]
    said = world.request(1, 2, "tools/call", name="echo", _meta={"progressToken": long[:2000]})
    assert "progressToken has more than 1024 bytes" in said[0]
    said = world.request(2, 3, "initialize", protocolVersion="2025-11-25", capabilities={"x": long})
    assert "the params of initialize have more than 65536 bytes" in said[0]
    assert "echo" in world.request(1, 4, "tools/call", name="echo", arguments={"text": long})[0]
