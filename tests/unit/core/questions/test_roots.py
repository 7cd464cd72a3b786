"""Roots that a server is told, where the transcript ``questions/roots`` leaves something open."""

from __future__ import annotations

import json

from mcpd.core.interface import events as ev
from mcpd.ids import SessionId
from tests.support.transcript import USER
from tests.unit.core.mux.world import World

ROOTS = '{"jsonrpc":"2.0","id":0,"method":"roots/list"}'


def shared(*workspaces: str) -> tuple[World, str]:
    """Return a world whose sessions share the process of their workspace, and its name."""
    world = World()
    world.run("!! server files sharing=workspace asks_for_roots=true")
    for session, workspace in enumerate(workspaces, 1):
        ident = SessionId(session)
        world.handle(ev.SessionOpened(ident, USER))
        world.run(f'>> {session} {{"jsonrpc":"2.0","id":0,"method":"mcpd/none"}}')
        attach = ev.Attach(ident, b"0", "files", None, workspace, (), may_control=False)
        world.handle(attach)
    return world, f"files-1@workspace:{workspaces[0]}"


def told(lines: list[str]) -> list[str]:
    (line,) = lines
    roots = json.loads(line[line.index("{") :])["result"]["roots"]
    return [root["uri"] for root in roots]


def test_a_workspace_is_named_whatever_its_name() -> None:
    """
    A client may write half of a character: that is no reason to raise.
    """
    for name, uri in (
        ("/a b", "file:///a%20b"),
        ("/\udcff", "file:///%FF"),
        ("/\ud83d", "file:///%3F"),
    ):
        world, place = shared(name, name)
        world.handle(ev.ServerUp(world.slot(place)))
        assert told(world.render(world.say(place, ROOTS.encode()))) == [uri]


def test_no_session_no_roots() -> None:
    world = World()
    world.run("!! server own sharing=session asks_for_roots=true", "!! open 1")
    world.run(
        '>> 1 {"jsonrpc":"2.0","id":1,"method":"mcpd/call","params":{"server":"own","tool":"echo"}}'
    )
    world.run("!! start own-1@control")
    (line,) = world.run(f">> own-1@control {ROOTS}")
    assert '"code":-32601' in line


def test_off_is_off_for_roots_of_sessions_as_well() -> None:
    world = World()
    world.run("!! server own sharing=session asks_for_roots=true interactive=off")
    world.run("!! attach 1 own roots=file:///a")
    world.run(
        '>> 1 {"jsonrpc":"2.0","id":1,"method":"initialize","params":'
        '{"protocolVersion":"2025-11-25","capabilities":{"roots":{}}}}'
    )
    world.run("!! start own-1@session:1")
    (line,) = world.run(f">> own-1@session:1 {ROOTS}")
    assert '"code":-32601' in line and "off" in line
