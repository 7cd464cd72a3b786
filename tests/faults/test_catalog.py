"""Cases from the field: tools that are missing, hidden, renamed, or in another order."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ground import answered, installed, notes, odd, text_result
from tests.support.daemon import Box, Json, Peer
from tests.support.waiting import wait_until

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
LONG_NAME = "a server with a name of thirty"
AWKWARD = ["x" * 60, "x" * 61, "a.b", "a_b", "a b", "a/b", "ümläut", "工具", "", "A_B", "-"]
"""Names that model APIs refuse, or that become equal when they are made legal."""

CLASHES = {
    "a": ["search", "b_c", "b__c"],
    "b": ["search", "x.y", "x_y"],
    "a_b": ["c", "Search"],
    "a__b": ["c", "search"],
}
SCHEMAS = {
    "no object": {"type": "string"},
    "no type": {"properties": {}},
    "any": {"anyOf": [{"type": "object"}, {"required": ["x"]}]},
    "one": {"oneOf": [{"type": "object"}]},
    "all": {"allOf": [{"if": {"required": ["a"]}, "then": {"required": ["b"]}}]},
    "true": True,
    "null": None,
    "array": [],
    "reference": {"$ref": "#/$defs/gone"},
}


def tool(name: str, **more: object) -> Json:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def lists(box: Box, name: str, tools: list[Json]) -> Path:
    path = box.root / f"{name.replace(' ', '-')}.json"
    path.write_text(json.dumps(tools))
    return path


def configure(box: Box) -> None:
    box.fake("pages", "--tools", 7, "--page-size", 2)
    box.fake("stuck", "--tools", 7, "--page-size", 4, "--stuck-cursor")
    first, second = {"tools": [tool("say"), tool("one")]}, {"tools": [tool("two")]}
    last: Json = {"tools": [tool("three")]}
    failing: Json = {"error": {"code": -32603, "message": "no third page today"}}
    pages = [first | {"nextCursor": "2"}, second | {"nextCursor": "3"}, last]
    pages += [{"tools": [tool("new")], "nextCursor": "2"}, second | {"nextCursor": "3"}, failing]
    script = box.root / "pages.json"
    script.write_text(json.dumps(pages))
    odd(box, "third", "--pages", script)
    odd(box, LONG_NAME, "--tools", lists(box, LONG_NAME, [tool(name) for name in AWKWARD]))
    bad = [{"name": name, "inputSchema": schema} for name, schema in SCHEMAS.items()]
    bad += [{"name": "absent"}, tool("output", outputSchema={"properties": {}})]
    broken: list[Json] = [{"description": "it has no name"}, tool("good") | {"name": 5}]
    odd(box, "schemas", "--tools", lists(box, "schemas", [*broken, tool("good"), *bad]))


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with servers whose lists are awkward."""
    with installed(configure) as made:
        yield made


def names_of(session: Peer) -> list[str]:
    result = session.request("tools/list", {})
    assert "nextCursor" not in result
    return [each["name"] for each in result["tools"]]


def test_a_client_that_never_pages_sees_every_tool(box: Box):
    """
    B057: those beyond the first page were missing.
    """
    with box.session("pages") as session:
        names = names_of(session)
        assert names[-7:] == [f"dummy_{number}" for number in range(7)]
        assert len(names) == len(set(names))
        assert session.text("dummy_6") == "dummy_6 called"


def test_a_cursor_that_does_not_advance_ends_the_list(box: Box):
    """
    B057: eight tools became 160.
    """
    with box.session("stuck") as session:
        names = names_of(session)
        assert 4 < len(names) == len(set(names))
        assert session.text("echo", text="x") == "x"
    assert any("cursor" in note for note in notes(box, "stuck"))


def test_an_error_on_a_later_page_keeps_the_list_as_it_was(box: Box):
    """
    B057: and it is said.
    """
    with box.session("third") as session:
        assert names_of(session) == ["say", "one", "two", "three"]
        parts = [[LIST_CHANGED + answered(text_result("done")), 1]]
        session.call("say", parts=parts)
        wait_until(lambda: any("no third page today" in note for note in notes(box, "third")))
        assert names_of(session) == ["say", "one", "two", "three"]


def test_the_aggregates_names_are_legal_and_lead_back(box: Box):
    """
    B092: one illegal name made the API refuse the request with all the tools of everybody.
    """
    with box.session(None) as session:
        own = names_of(session)
        with box.session(LONG_NAME) as direct:
            assert names_of(direct) == AWKWARD
        start = re.sub(r"[^A-Za-z0-9_-]", "_", LONG_NAME)
        mine = [name for name in own if name.startswith(start)]
        assert all(LEGAL.fullmatch(name) for name in own)
        assert len(mine) == len(set(mine)) == len(AWKWARD)
        assert [session.text(name) for name in mine] == AWKWARD


def test_a_tool_with_an_odd_schema_hides_no_other(box: Box):
    """
    B094: it made all tools of the server vanish, without a word.
    """
    with box.session("schemas") as session, box.session(None) as everything:
        listed = session.request("tools/list", {})["tools"]
        assert [each["name"] for each in listed] == ["good", *SCHEMAS, "absent", "output"]
        assert {each["name"]: each.get("inputSchema") for each in listed}.items() >= SCHEMAS.items()
        assert "schemas__good" in names_of(everything)
        assert session.text("good") == "good"
        assert session.text("no type") == "no type"
    with box.peer() as peer:
        for name in ("good", "true", "any", "reference", "absent"):
            asked = {"server": "schemas", "tool": name, "arguments": {}}
            assert peer.request("mcpd/call", asked)["content"][0]["text"] == name
    assert box.status("schemas")["tools"] == len(SCHEMAS) + 3
    told = "\n".join(notes(box, "schemas"))
    assert "arguments of reference were sent unchecked" in told
    assert "tools/list: 2 entries" in told, told


def test_names_and_their_order_depend_on_the_configuration_alone():
    """
    B093: of two tools with one name one was dropped, whichever came last.
    B098: an order that changes between runs costs the prompt cache. Here a server may be late.
    """

    def clashing(box: Box) -> None:
        for name, tools in CLASHES.items():
            path = lists(box, name, [tool(each) for each in tools])
            odd(box, name, "--tools", path)
            launch = box.servers[name]
            wait = f'sleep {random.choice(("0", "0.05", "0.1"))}; exec "$@"'
            launch["args"] = ["-c", wait, "sh", launch["command"], *launch["args"]]
            launch["command"] = "sh"

    seen = set()
    with installed(clashing, up=False) as box:
        for _ in range(3):
            clashing(box)
            box.up()
            with box.session(None) as session:
                seen.add(json.dumps(session.request("tools/list", {})))
                names = names_of(session)
                assert len(names) == len(set(names)) == sum(map(len, CLASHES.values()))
                said = [session.text(name) for name in names]
                assert said == [name for tools in CLASHES.values() for name in tools]
            box.down()
            shutil.rmtree(box.state)
            box.state.mkdir(mode=0o700)
    assert len(seen) == 1
