"""What a modern server lists for clients: whose lists are the same, and how many are kept."""

from __future__ import annotations

import json

import pytest

from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.versions import Era
from mcpd.core.upstream.client_lists import LISTS_BYTES, MOST_LISTS, canonical
from mcpd.core.upstream.upstream import KEEP_AFTER
from tests.unit.core.mux.world import World

ASKS = '>>m 1 {} {{"jsonrpc":"2.0","id":{},"method":"tools/list"}}'


class Listing(World):
    """One modern server, and a client that asks it for its tools under many names."""

    def __init__(self) -> None:
        super().__init__()
        self.run("!! server echo era=modern", "!! start echo tools", "!! attach 1 echo")
        self.asked = 0

    def list(self, capability: str, size: int = 0, tool: str | None = None) -> bool:
        """Ask for the tools; tell whether the server was asked for them."""
        self.asked += 1
        done = self.run(ASKS.format(capability, self.asked))
        if not done[0].startswith("<< echo"):
            return False
        number = json.loads(done[0].removeprefix("<< echo "))["id"]
        tools = [{"name": tool or capability, "description": "x" * size}]
        (answer,) = self.render(self.answer("echo", number, {"tools": tools}))
        assert answer.startswith("<< 1 ")
        return True


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":{},"b":{"c":1}}', b'{ "b": {"c": 1}, "a": {} }'),
        (b'{"a":{"x":"\\u00e9"}}', '{"a":{"x":"é"}}'.encode()),
    ],
)
def test_capabilities_are_the_same_however_they_are_written(one: bytes, other: bytes) -> None:
    assert canonical(one) == canonical(other)


def test_odd_capabilities_are_themselves() -> None:
    for odd in (b'{"a":"\\ud800"}', b'{"a":1e400}', b'{"a":' * 5000 + b"1" + b"}" * 5000):
        assert canonical(odd)


def test_the_least_recently_asked_for_are_read_again() -> None:
    world = Listing()
    names = [f"c{number}" for number in range(MOST_LISTS)]
    assert all(world.list(name) for name in names)
    assert not any(world.list(name) for name in names)
    assert world.list("one-more")
    assert not world.list(names[1])
    assert world.list(names[0])


def test_large_lists_are_kept_up_to_a_bound_and_those_like_ours_do_not_count() -> None:
    world, size = Listing(), LISTS_BYTES // 3
    assert all(world.list(name, size) for name in "abc")
    assert not world.list("c")
    assert world.list("a", size)
    same = World()
    same.run("!! server echo era=modern", "!! up echo", "!! attach 1 echo")
    same.answer("echo", 1, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    tools = {"tools": [{"name": "t", "description": "x" * size}]}
    same.answer("echo", 2, tools)
    for number, name in enumerate("abcdef"):
        same.run(ASKS.format(name, number))
        same.answer("echo", 3 + number, tools)
    upstream = same.mux._state.at(same.slot("echo"))
    assert upstream is not None
    assert len(upstream.known().of_clients) == 6


def test_lists_that_came_one_after_the_other_are_put_on_disk_together() -> None:
    world = Listing()
    world.run("!! show keep")
    for name in "abc":
        assert world.list(name)
    assert [line for line in world.run(f"!! +{KEEP_AFTER}") if "keep" in line] != []
    assert world.list("d")
    assert [line for line in world.run("!! down echo crashed") if "keep" in line] != []


def test_lists_that_leave_give_their_memory_back_at_once() -> None:
    """
    They are part of a circle, and the collector may come late.
    """
    world = Listing()
    world.list("c")
    (upstream,) = world.mux._state.upstreams.values()
    (first,) = upstream.client_lists
    assert first.heard
    for number in range(MOST_LISTS):
        world.list(f"c{number}")
    assert first not in [*upstream.client_lists]
    assert not first.catalog.lists and not first.heard


def test_a_tool_is_what_the_process_that_there_is_has_listed() -> None:
    """
    After a restart, not what an earlier process listed for this client.
    """
    world = Listing()
    world.list("x", size=1, tool="write")
    client = ClientInfo(Era.MODERN, b'{"x":{}}')
    (upstream,) = world.mux._state.upstreams.values()
    item = upstream.client_lists.tool_for(client, "write")
    assert item is not None and b'"description"' in item.raw
    world.run("!! down echo crashed", "!! start echo tools")
    item = upstream.client_lists.tool_for(client, "write")
    assert item is not None and b'"description"' not in item.raw
