"""From a session to its process."""

from __future__ import annotations

from tests.unit.core.mux.world import World


def test_a_process_for_each_workspace_is_shared_by_those_who_are_there():
    world = World()
    world.run("!! show open close-slot", "!! server echo sharing=workspace")
    assert world.run("!! attach 1 echo") == ["-- open echo-1@workspace: workspace:"]
    assert world.run("!! attach 2 echo") == []
    assert world.run("!! close 1", "!! close 2") == []


def test_a_session_with_two_names_of_one_process_leaves_it_once():
    """
    Two entries that launch the same thing are one process, also where it belongs to the session.
    """
    world = World()
    world.run("!! show close-slot", "!! server one launch=x sharing=session")
    world.run("!! server two launch=x sharing=session", "!! join 1")
    world.call(1, 1, "one__echo")
    world.run("!! start x@control")
    world.call(1, 2, "two__echo")
    closed = [line for line in world.run("!! close 1") if line.startswith("-- close-slot")]
    assert closed == ["-- close-slot x@session:1 its session ended"]


def test_what_a_process_said_is_remembered_for_the_next_of_its_launch():
    world = World()
    world.run("!! server own sharing=session", "!! join 1 own", "!! start own-1@session:1")
    world.run("!! close 1", "!! attach 2 own")
    (answer,) = world.request(2, 1, "initialize", protocolVersion="2025-11-25")
    assert '"result"' in answer


def test_control_calls_have_a_process_of_their_own_where_sessions_do():
    world = World()
    world.run("!! show open", "!! server own sharing=session", "!! open 1")
    done = world.request(1, 1, "mcpd/call", server="own", tool="echo")
    assert done == ["-- open own-1@control control", "-- want own-1@control"]
