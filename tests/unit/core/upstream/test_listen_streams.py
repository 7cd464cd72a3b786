"""Our listens at a modern process: opened, acknowledged, ended and opened again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.core.mcp.modern_meta import SUBSCRIPTION_KEY
from tests.unit.core.mux.world import World

LISTENS = '"method":"subscriptions/listen"'


class Modern(World):
    """A world with one modern server and a legacy session on it."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        start = " ".join(("!! start echo", *kinds))
        self.run("!! server echo era=modern", start, "!! join 1 echo")

    def tell(self, method: str, ident: int | None, **params: Any) -> list[str]:
        """Have the server notify of something, by the listen of this id."""
        if ident is not None:
            params["_meta"] = {SUBSCRIPTION_KEY: ident}
        message = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
        return self.run(">> echo " + json.dumps(message))

    def acknowledge(self, ident: int, *uris: str) -> list[str]:
        """Have the server acknowledge a listen for resources."""
        what = {"resourceSubscriptions": list(uris)}
        return self.tell("subscriptions/acknowledged", ident, notifications=what)

    def subscribe(self, uri: str, session: int = 1, ident: int = 7) -> int:
        """Have a session subscribe; return the id of the listen that this opens."""
        (line,) = self.request(session, ident, "resources/subscribe", uri=uri)
        assert LISTENS in line
        return listen_id(line)


def listen_id(line: str) -> int:
    found = json.loads(line.split(" ", 2)[2])
    assert found["method"] == "subscriptions/listen", line
    return int(found["id"])


def updates(lines: list[str]) -> list[str]:
    return [line.split(" ", 2)[1] for line in lines if "resources/updated" in line]


def test_one_listen_is_for_all_lists_that_may_change() -> None:
    world = World()
    world.run("!! server echo era=modern", "!! attach 1 echo", "!! up echo")
    (first, *_) = [
        line
        for line in world.run(
            '>> echo {"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],'
            '"capabilities":{"tools":{"listChanged":true},"prompts":{},'
            '"resources":{"listChanged":true}}}}'
        )
        if LISTENS in line
    ]
    asked = json.loads(first.split(" ", 2)[2])["params"]["notifications"]
    assert asked == {"toolsListChanged": True, "resourcesListChanged": True}


def test_a_server_whose_lists_never_change_is_not_listened_to() -> None:
    world = World()
    world.run("!! server echo era=modern", "!! attach 1 echo", "!! up echo")
    lines = world.run(
        '>> echo {"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],'
        '"capabilities":{"tools":{}}}}'
    )
    assert not any(LISTENS in line for line in lines)


def test_a_listen_is_no_request_in_flight_and_keeps_no_server_alive() -> None:
    world = World()
    world.run("!! show idle", "!! server echo era=modern", "!! start echo", "!! join 1 echo")
    assert world.mux.in_flight_count() == 0
    assert "-- idle echo" in world.run("!! close 1")


def test_a_subscription_stands_when_its_listen_is_acknowledged() -> None:
    world = Modern()
    ident = world.subscribe("x://a")
    assert world.acknowledge(ident + 1, "x://a") == [], "that is another's"
    (answer,) = world.acknowledge(ident, "x://a")
    assert answer == '<< 1 {"jsonrpc":"2.0","id":7,"result":{}}'
    assert world.acknowledge(ident, "x://a") == [], "once is enough"


def test_the_id_may_come_back_as_a_string() -> None:
    """
    Some servers make strings of all ids.
    """
    world = Modern()
    ident = world.subscribe("x://a")
    params = {"notifications": {"resourceSubscriptions": ["x://a"]}}
    params["_meta"] = {SUBSCRIPTION_KEY: str(ident)}
    message = {"jsonrpc": "2.0", "params": params}
    message["method"] = "notifications/subscriptions/acknowledged"
    (answer,) = world.run(">> echo " + json.dumps(message))
    assert answer.startswith("<< 1 ") and '"result"' in answer


def test_a_listen_without_its_uri_is_a_refusal_and_is_given_up() -> None:
    world = Modern()
    ident = world.subscribe("x://a")
    gone, answer = world.acknowledge(ident)
    assert json.loads(gone.split(" ", 2)[2])["params"] == {"requestId": ident}
    assert '"code":-32602' in answer and "x://a" in answer


@pytest.mark.parametrize("code", [-32601, -32603])
def test_an_error_to_a_listen_is_a_refusal(code: int) -> None:
    world = Modern()
    ident = world.subscribe("x://a")
    error = json.dumps({"code": code, "message": "too many"})
    (answer,) = world.run(f'>> echo {{"jsonrpc":"2.0","id":{ident},"error":{error}}}')
    assert answer.startswith('<< 1 {"jsonrpc":"2.0","id":7,"error"')
    assert world.run("!! +120") == []


def test_a_listen_that_is_never_acknowledged_is_given_up() -> None:
    world = Modern()
    ident = world.subscribe("x://a")
    assert world.run("!! +9.9") == []
    gone, answer = world.run("!! +0.2")
    assert f'"requestId":{ident}' in gone
    assert "did not acknowledge" in answer


def test_an_update_comes_without_the_id_of_our_listen() -> None:
    world = Modern()
    ident = world.subscribe("x://a")
    world.acknowledge(ident, "x://a")
    (line,) = world.tell("resources/updated", ident, uri="x://a", n=1)
    assert json.loads(line.split(" ", 2)[2])["params"] == {"uri": "x://a", "n": 1}
    assert world.tell("resources/updated", ident + 9, uri="x://a") == []


def test_an_update_that_comes_by_several_listens_comes_once() -> None:
    """
    The server tells of a part by the listen for it and by that for the whole.
    """
    world = Modern()
    whole, part = world.subscribe("x://a", ident=7), world.subscribe("x://a/b", ident=8)
    world.acknowledge(whole, "x://a")
    world.acknowledge(part, "x://a/b")
    assert world.tell("resources/updated", whole, uri="x://a/b") == []
    assert len(updates(world.tell("resources/updated", part, uri="x://a/b"))) == 1
    assert len(updates(world.tell("resources/updated", whole, uri="x://a/c"))) == 1


def test_the_last_that_leaves_ends_the_listen() -> None:
    world = Modern()
    ident = world.subscribe("x://a")
    world.acknowledge(ident, "x://a")
    world.run("!! join 2 echo")
    world.request(2, 9, "resources/subscribe", uri="x://a")
    assert not any("cancelled" in line for line in world.run("!! close 1"))
    gone = [line for line in world.run("!! close 2") if "notifications/cancelled" in line]
    assert len(gone) == 1 and f'"requestId":{ident}' in gone[0]
    assert world.tell("resources/updated", ident, uri="x://a") == []


def test_a_listen_that_the_server_ends_is_opened_again_and_later_each_time() -> None:
    world = Modern("tools")
    (line,) = world.run('>> echo {"jsonrpc":"2.0","id":2,"result":{}}', "!! +1.1")
    for wait in (2, 4, 8):
        ident = listen_id(line)
        message = {"requestId": ident}
        assert world.tell("cancelled", None, **message) == []
        assert world.run(f"!! +{wait - 0.2}") == []
        (line,) = world.run("!! +0.3")


def test_what_changed_while_nobody_listened_is_looked_for() -> None:
    world = Modern("tools")
    ident = listen_id(world.run('>> echo {"jsonrpc":"2.0","id":2,"result":{}}', "!! +1.1")[0])
    what = {"toolsListChanged": True}
    lines = world.tell("subscriptions/acknowledged", ident, notifications=what)
    assert len(lines) == 1 and '"tools/list"' in lines[0]
    wire_id = json.loads(lines[0].split(" ", 2)[2])["id"]
    told = world.render(world.answer("echo", wire_id, {"tools": []}))
    assert [line for line in told if "tools/list_changed" in line]


def test_a_server_that_has_no_listens_is_left_alone() -> None:
    world = Modern("tools")
    error = '{"code":-32601,"message":"Method not found"}'
    assert world.run(f'>> echo {{"jsonrpc":"2.0","id":2,"error":{error}}}', "!! +300") == []


def test_of_a_process_that_is_gone_nothing_is_opened_again() -> None:
    world = Modern("tools")
    world.run('>> echo {"jsonrpc":"2.0","id":2,"result":{}}', "!! down echo stopped")
    assert world.run("!! +300") == []


def test_the_next_process_is_subscribed_before_it_is_ready() -> None:
    """
    Else the first update would be lost.
    """
    world = Modern("resources")
    world.acknowledge(world.subscribe("x://a"), "x://a")
    world.run("!! down echo crashed", "!! up echo")
    lines = world.run(
        '>> echo {"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],'
        '"capabilities":{"resources":{"subscribe":true}}}}'
    )
    opened = [line for line in lines if LISTENS in line]
    assert len(opened) == 1
    ready: list[str] = []
    for line in lines:
        message = json.loads(line.split(" ", 2)[2])
        if message["method"] != "subscriptions/listen":
            ready += world.render(world.answer("echo", message["id"], {"tools": []}))
    assert "-- ready echo" not in ready
    assert "-- ready echo" in world.acknowledge(listen_id(opened[0]), "x://a")


def test_a_list_that_changed_while_it_was_read_is_read_again() -> None:
    world = World()
    world.run("!! server echo era=modern", "!! attach 1 echo", "!! up echo")
    world.run(
        '>> echo {"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],'
        '"capabilities":{"tools":{"listChanged":true}}}}'
    )
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    changed["params"] = {"_meta": {SUBSCRIPTION_KEY: 2}}  # type: ignore[assignment]
    assert world.run(">> echo " + json.dumps(changed)) == []
    world.run("!! +0.5")
    lines = world.render(world.answer("echo", 3, {"tools": []}))
    assert "-- ready echo" in lines
    assert sum('"tools/list"' in line for line in lines) == 1
