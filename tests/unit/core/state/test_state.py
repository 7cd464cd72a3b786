"""From a session to its process."""

from __future__ import annotations

from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.state.slots import STRANGERS
from mcpd.ids import SessionId
from tests.unit.core.mux.world import World


def test_a_process_for_each_workspace_is_shared_by_those_who_are_there():
    world = World()
    world.run("!! show open close-slot", "!! server echo sharing=workspace")
    assert world.run("!! attach 1 echo") == ["-- open echo-1@workspace: workspace:"]
    assert world.run("!! attach 2 echo") == []
    assert world.run("!! close 1") == []
    why = "its workspace is not used any more"
    assert world.run("!! close 2") == [f"-- close-slot echo-1@workspace: {why}"]


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


def test_sessions_of_one_workspace_share_and_others_do_not():
    world = World()
    world.run("!! show open close-slot", "!! server echo sharing=workspace")
    opened: list[str] = []
    for session, workspace in ((1, "/a"), (2, "/b"), (3, "/a")):
        ident = SessionId(session)
        world.run(f"!! open {session}")
        world.mux.handle(
            ev.FrameFromSession(ident, b'{"jsonrpc":"2.0","id":1,"method":"mcpd/attach"}'), 0.0
        )
        attach = ev.Attach(ident, b"1", "echo", None, workspace, (), may_control=False)
        opened += [
            f"{command.slot} in {command.cwd}"
            for command in world.mux.handle(attach, 0.0)
            if isinstance(command, cmd.OpenSlot)
        ]
    assert opened == ["echo-1@workspace:/a in /a", "echo-1@workspace:/b in /b"]


def test_notifications_are_marked_as_what_a_slow_client_loses_first():
    world = World()
    world.run("!! server echo", "!! start echo", "!! join 1 echo")
    said = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
    (command,) = world.say("echo", said)
    assert isinstance(command, cmd.ToSession) and command.is_notification
    (command,) = world.say("1", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert isinstance(command, cmd.ToSession) and not command.is_notification


def test_a_new_place_waits_for_the_one_that_it_takes_over_from():
    """
    Also where no session moves with it, and not for another server's.
    """
    world = World()
    world.run(
        "!! show open", "!! server echo", "!! server other", "!! start echo", "!! start other"
    )
    world.run("!! open 1")
    for number, server in enumerate(("other", "echo"), 1):
        world.request(1, number, "mcpd/call", server=server, tool="echo")
        world.run(f"!! valid {number}")
    world.run("!! server echo launch=echo-2", "!! server other launch=other-2")
    done = world.request(1, 3, "mcpd/call", server="echo", tool="echo")
    assert done[0] == "-- open echo-2 shared after=echo-1"


def test_control_calls_are_made_in_the_workspace_that_they_come_from():
    """
    B034: what a project's server is asked in one project is not answered for another.
    """
    world = World()
    world.run("!! show open close-slot", "!! server own sharing=workspace", "!! server all")
    opened: list[str] = []
    for session, workspace in ((1, "/a"), (2, "/b"), (3, "/a"), (4, None)):
        ident = SessionId(session)
        world.run(f"!! open {session}")
        world.mux.handle(ev.WorkspaceKnown(ident, workspace), 0.0)
        for server in ("own", "all"):
            key = server.encode()
            frame = b'{"jsonrpc":"2.0","id":"%b","method":"mcpd/call"}' % key
            world.mux.handle(ev.FrameFromSession(ident, frame), 0.0)
            call = ev.CallTool(ident, b'"%b"' % key, server, "x", None, None, False)
            opened += [
                f"{command.slot} {command.cwd}"
                for command in world.mux.handle(call, 0.0)
                if isinstance(command, cmd.OpenSlot)
            ]
    assert opened == [
        "own-1@control:/a /a",
        "all-1 None",
        "own-1@control:/b /b",
        "own-1@control None",
    ]


def test_what_launches_said_is_not_kept_for_good_when_nothing_is_started_like_that():
    """
    B147: a catalog may be megabytes, and ad-hoc servers and changed entries come and go for weeks.
    """
    world = World()
    world.run("!! server kept", "!! start kept")
    state = world.mux._state
    for number in range(20):
        name = f"adhoc{number}"
        world.run(f"!! server {name}", f"!! join 1 {name}", f"!! start {name}")
        world.call(1, 1, "echo")
        world.answer(name, 3)
        assert world.mux.report(name).calls == 1
        world.run("!! close 1", f"!! remove {name}", "++ 60")
        world.run(f"!! server kept launch=kept-{number}", "++ 60", "!! start kept")
    assert len(state.memory) <= STRANGERS + 1
    assert len(state.past_calls) <= STRANGERS + 1
    assert state.keys.keys() == {"kept-19"}
    assert not state.retiring
