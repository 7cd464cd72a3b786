"""Profiles: what a session in one may use, and what a reload changes for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.interface.commands import SessionState
from mcpd.core.interface.entries import Policy, Profile
from mcpd.core.policy.rates import Rate
from mcpd.ids import SessionId
from mcpd.principal import Scope, bearer
from tests.unit.core.mux.world import World

ONE = SessionId(1)
WRITES = Scope(tools=(("write",),))


class House(World):
    """Two servers that are up, and a session in a profile."""

    def __init__(self, server: str | None, profile: Scope) -> None:
        super().__init__()
        for name in ("echo", "other"):
            self.run(f"!! server {name}", f"!! start {name}")
        self.configure(review=profile)
        self.handle(ev.SessionOpened(ONE, bearer("laptop", profile="review")))
        state = SessionState(version="2025-06-18", is_initialized=True)
        self.handle(ev.Join(ONE, server, state))

    def configure(self, **profiles: Scope) -> list[str]:
        """Apply profiles; return the methods of what the session is told."""
        entries = tuple(self.entries.values())
        policy = Policy(profiles={name: Profile(scope=scope) for name, scope in profiles.items()})
        told = self.handle(ev.EntriesChanged(entries, policy))
        lines = [bytes(c.data) for c in told if isinstance(c, cmd.ToSession)]  # type: ignore[arg-type]
        return [json.loads(line)["method"] for line in lines]

    def answered(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        commands = self.handle(ev.FrameFromSession(ONE, json.dumps(message).encode()))
        data = [c for c in commands if isinstance(c, cmd.ToSession)][-1].data
        return json.loads(data if isinstance(data, bytes) else b"".join(map(bytes, data)))

    def subscribe(self) -> None:
        """Have the session subscribe to a resource of ``echo``."""
        lists = {"resources/list": {"resources": [{"uri": "a:b", "name": "b"}]}}
        message = {"jsonrpc": "2.0", "id": 9, "method": "resources/subscribe"}
        told = self.handle(
            ev.FrameFromSession(ONE, json.dumps(message | {"params": {"uri": "a:b"}}).encode())
        )
        while asked := [each for each in told if isinstance(each, cmd.ToServer)]:
            told = []
            for each in asked:
                wanted = json.loads(each.data)  # type: ignore[arg-type]
                server = each.slot.partition("-")[0]
                empty = {"resources": [], "resourceTemplates": []}
                result = lists.get(wanted["method"], empty) if server == "echo" else empty
                told += self.answer(server, wanted["id"], result)

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.answered("tools/list")["result"]["tools"]]


def test_requests_without_a_session_share_a_rate() -> None:
    """
    Each has a session of its own: a client that opens none would have no limit.
    """
    house = House("echo", Scope())
    entries = tuple(structs.replace(entry, rate_wait=0) for entry in house.entries.values())
    house.handle(ev.EntriesChanged(entries, Policy(client_rate=Rate(10, 60.0))))
    state = SessionState(version="2025-06-18", is_initialized=True)
    refused = 0
    for number in range(20, 32):
        house.handle(ev.SessionOpened(SessionId(number), bearer("laptop")))
        house.handle(ev.Join(SessionId(number), "echo", state, is_brief=True))
        call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}'
        lines = [*house.run(f">> {number} {call}"), *house.run("!! +0.02")]
        refused += any('"limit":"client"' in line for line in lines)
    assert refused == 2


@pytest.mark.parametrize("where", ["server", "client", "token"])
def test_a_rate_counts_wherever_it_is_said_and_until_a_reload_says_none(where: str) -> None:
    house, rate = House("echo", Scope()), Rate(10, 60.0)
    without = tuple(structs.replace(entry, rate_wait=0) for entry in house.entries.values())
    entries, policy = without, Policy(profiles={"review": Profile()})
    if where == "server":
        entries = tuple(structs.replace(entry, rate=rate) for entry in without)
    elif where == "client":
        policy = structs.replace(policy, client_rate=rate)
    else:
        policy = Policy(profiles={"review": Profile(rate=rate)})
    house.handle(ev.EntriesChanged(entries, policy))
    done = [
        line for number in range(12) for line in (*house.call(1, number), *house.run("!! +0.02"))
    ]
    assert sum(f'"limit":"{where}"' in line for line in done) == 2
    house.handle(ev.EntriesChanged(without, Policy(profiles={"review": Profile()})))
    done = [line for number in range(12, 24) for line in house.call(1, number)]
    assert len(done) == 12 and all(line.startswith("<< echo") for line in done)


def test_a_reload_that_takes_one_rate_away_leaves_the_others() -> None:
    """
    Calls that wait for their turn under a rate of their client have not passed that of the server.
    """
    house = House("echo", Scope())
    house.handle(ev.SessionOpened(SessionId(2), bearer("desk")))
    state = SessionState(version="2025-06-18", is_initialized=True)
    house.handle(ev.Join(SessionId(2), "echo", state))
    rate = Rate(10, 60.0)
    entries = tuple(structs.replace(e, rate=rate, rate_wait=5.0) for e in house.entries.values())
    profiles = {"review": Profile()}
    policy = Policy(profiles=profiles, client_rate=Rate(60, 60.0))
    house.handle(ev.EntriesChanged(entries, policy))
    done = [line for number in range(10) for one in (1, 2) for line in house.call(one, number)]
    house.handle(ev.EntriesChanged(entries, Policy(profiles=profiles)))
    for _ in range(50):
        done += house.run("!! +0.01")
    assert sum(line.startswith("<< echo") for line in done) == rate.burst


def test_what_is_outside_is_absent() -> None:
    house = House("echo", WRITES)
    assert house.tools() == ["write"]
    error = house.answered("tools/call", name="read", arguments={})["error"]
    assert error["data"]["kind"] == "tool_not_found" and error["data"]["near"] == []


def test_a_reload_narrows_at_once_and_tells() -> None:
    house = House("echo", Scope())
    assert len(house.tools()) > 1
    assert "notifications/tools/list_changed" in house.configure(review=WRITES)
    assert house.tools() == ["write"]
    assert house.configure(review=WRITES) == []


def test_a_profile_that_is_gone_lets_nothing_through() -> None:
    house = House("echo", Scope())
    assert house.configure()
    assert house.tools() == []
    for method, params in (
        ("tools/call", {"name": "read", "arguments": {}}),
        ("prompts/get", {"name": "greet"}),
        ("resources/read", {"uri": "file:///a"}),
    ):
        assert "error" in house.answered(method, **params)


def test_resources_can_be_outside() -> None:
    house = House("echo", Scope(resources=False))
    assert house.answered("resources/list")["error"]["code"] == -32601
    assert "error" in house.answered("resources/read", uri="file:///a")
    assert "error" in house.answered("resources/subscribe", uri="file:///a")
    assert house.tools()


@pytest.mark.parametrize("server", ["echo", None])
@pytest.mark.parametrize("narrowed", [None, Scope(servers=frozenset(("other",)))])
def test_a_narrowed_session_hears_no_more_of_what_is_outside(
    server: str | None, narrowed: Scope | None
) -> None:
    """
    It had subscribed, and had used a process, before the profile was edited or removed.
    """
    house = House(server, Scope())
    updated = '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}'
    log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
    house.subscribe()
    assert house.run(f">> echo {updated}") and house.run(f">> echo {log}")
    house.configure(**({} if narrowed is None else {"review": narrowed}))
    house.run("!! +1")
    assert house.run(f">> echo {updated}", f">> echo {log}", "!! +1") == []


def test_a_session_without_resources_hears_logs_alone() -> None:
    house = House("echo", Scope())
    house.subscribe()
    house.configure(review=Scope(resources=False))
    house.run("!! +1")
    updated = '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}'
    log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
    assert house.run(f">> echo {updated}") == []
    assert house.run(f">> echo {log}")
