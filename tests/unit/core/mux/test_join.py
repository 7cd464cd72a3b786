"""Sessions that are on an endpoint from their beginning, and what is kept of them."""

from __future__ import annotations

import json
from typing import Any

from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.commands import SessionState
from mcpd.ids import SessionId
from mcpd.principal import Scope, bearer
from tests.unit.core.mux.world import World

ONE = SessionId(1)


class House(World):
    """Two servers that are up, and a session with a token."""

    def __init__(
        self, server: str | None = "echo", scope: Scope | None = None, **join: Any
    ) -> None:
        super().__init__()
        for name in ("echo", "other"):
            self.run(f"!! server {name}", f"!! start {name}")
        self.handle(ev.SessionOpened(ONE, bearer("laptop", scope or Scope())))
        self.joined = self.handle(ev.Join(ONE, server, **join))

    def ask(self, method: str, ident: int = 1, **params: Any) -> list[cmd.Command]:
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        return self.handle(ev.FrameFromSession(ONE, json.dumps(message).encode()))

    def answered(self, method: str, **params: Any) -> Any:
        found = [c for c in self.ask(method, **params) if isinstance(c, cmd.ToSession)]
        data = found[-1].data
        return json.loads(data if isinstance(data, bytes) else b"".join(map(bytes, data)))


def kept(commands: list[cmd.Command]) -> list[SessionState]:
    return [c.state for c in commands if isinstance(c, cmd.KeepSession)]


def test_a_session_is_kept_before_initialize_is_answered() -> None:
    house = House(is_kept=True)
    said = {"capabilities": {"sampling": {}}, "clientInfo": {"name": "c", "version": "1"}}
    commands = house.ask("initialize", protocolVersion="2025-06-18", **said)
    kinds = [type(c) for c in commands if isinstance(c, cmd.KeepSession | cmd.ToSession)]
    assert kinds == [cmd.KeepSession, cmd.ToSession]
    [state] = kept(commands)
    assert (state.version, state.is_initialized) == ("2025-06-18", False)
    assert json.loads(state.capabilities) == {"sampling": {}}
    line = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    [state] = kept(house.handle(ev.FrameFromSession(ONE, line)))
    assert state.is_initialized


def test_a_session_that_ends_with_its_connection_is_not_kept() -> None:
    house = House()
    assert not kept(house.ask("initialize", protocolVersion="2025-06-18", capabilities={}))


def test_a_session_is_taken_up_again() -> None:
    state = SessionState(version="2025-06-18", info=b'{"name":"c"}', level="error")
    house = House(state=state, is_kept=True)
    assert "tools" in house.answered("tools/list")["result"]
    [report] = house.mux.sessions()
    assert report.client == "c (token laptop)"
    [state] = kept(house.ask("logging/setLevel", level="debug")) or [state]
    assert state.version == "2025-06-18"


def test_a_session_with_old_lists_is_told() -> None:
    house = House(state=SessionState(version="2025-06-18"), is_stale=True)
    lines = [bytes(c.data) for c in house.joined if isinstance(c, cmd.ToSession)]  # type: ignore[arg-type]
    assert any(b"notifications/tools/list_changed" in line for line in lines)


def test_of_a_brief_session_nobody_is_told() -> None:
    house = House(state=SessionState(version="2025-06-18"), is_brief=True)
    ended = house.handle(ev.SessionClosed(ONE, "done"))
    assert not [c for c in (*house.joined, *ended) if isinstance(c, cmd.Tell)]


def test_other_servers_are_absent_from_the_aggregate_of_a_scope() -> None:
    house = House(
        None, Scope(servers=frozenset(("other",))), state=SessionState(version="2025-06-18")
    )
    names = [tool["name"] for tool in house.answered("tools/list")["result"]["tools"]]
    assert names
    assert all(name.startswith("other__") for name in names)
    error = house.answered("tools/call", name=names[0].replace("other", "echo"))["error"]
    assert error["data"]["kind"] == "tool_not_found"


def test_other_tools_are_absent_from_the_aggregate_too() -> None:
    house = House(None, Scope(tools=(("nothing",),)), state=SessionState(version="2025-06-18"))
    assert house.answered("tools/list")["result"]["tools"] == []


def test_the_schema_of_a_tool_is_for_those_who_may_use_it() -> None:
    """
    The headers of a request would else tell what such a tool takes.
    """
    house = House("echo", state=SessionState(version="2025-06-18"))
    tool = house.answered("tools/list")["result"]["tools"][0]["name"]
    assert house.mux.tool_schema("echo", tool, bearer("t")) is not None
    assert house.mux.tool_schema(None, f"echo__{tool}", bearer("t")) is not None
    assert house.mux.tool_schema("echo", tool, bearer("t", Scope(tools=(("nothing",),)))) is None
    assert (
        house.mux.tool_schema(None, f"echo__{tool}", bearer("t", Scope(frozenset(("other",)))))
        is None
    )


def test_other_tools_are_absent_and_not_found() -> None:
    house = House("echo", Scope(tools=(("nothing",),)), state=SessionState(version="2025-06-18"))
    assert house.answered("tools/list")["result"]["tools"] == []
    error = house.answered("tools/call", name="write", arguments={})["error"]
    assert error["data"]["kind"] == "tool_not_found"
    assert "write" not in error["data"]["near"]


def test_requests_of_one_principal_share_a_process_of_a_server_that_has_one_for_each_session() -> (
    None
):
    world = World()
    world.run("!! server echo sharing=session")
    slots = []
    for number, name in enumerate(("laptop", "laptop", "other"), 1):
        session = SessionId(number)
        world.handle(ev.SessionOpened(session, bearer(name)))
        state = SessionState(version="2025-06-18")
        world.handle(ev.Join(session, "echo", state, is_brief=True))
        call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}'
        found = world.handle(ev.FrameFromSession(session, call))
        slots.append([c.key for c in found if isinstance(c, cmd.OpenSlot)])
    assert slots == [["control:token laptop"], [], ["control:token other"]]
