"""What is said of tools, from their lists."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.core.catalog.naming import qualify
from mcpd.doctor.check.catalog import check
from mcpd.doctor.finding import Finding

GOOD = {"type": "object", "properties": {}}


def tool(name: str = "t", **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": GOOD, **more}


def findings(names: list[str], **tools: list[dict[str, Any]]) -> list[Finding]:
    for server, listed in tools.items():
        known = qualify(names, server, [each["name"] for each in listed])
        for each in listed:
            each["qualified_name"] = known[each["name"]]
    return list(check(names, tools))


def test_plain_names_and_schemas_are_nothing_to_speak_of() -> None:
    assert findings(["a", "b"], a=[tool("search")], b=[tool("search"), tool("Search")]) == []


@pytest.mark.parametrize("names", [["x.y", "x_y"], ["a b", "a.b"]])
def test_servers_that_look_alike_in_the_aggregate_are_both_told(names: list[str]) -> None:
    """
    B093: the hash is what tells their tools apart, and why it is there.
    """
    found = findings(names)
    assert [(each.id, each.server) for each in found] == [("names_collide", n) for n in names]
    assert names[1] in found[0].message


def test_a_server_whose_name_begins_with_anothers_is_told() -> None:
    """
    B093: ``a`` with ``b__c`` and ``a__b`` with ``c`` would be the same.
    """
    assert [each.server for each in findings(["a", "a__b"])] == ["a__b"]


def test_two_tools_of_one_server_that_would_be_one() -> None:
    (found,) = findings(["s"], s=[tool("a.b"), tool("a_b"), tool("c")])
    assert found.id == "tools_collide"
    assert "'a.b' and 'a_b'" in found.message


def test_a_name_that_was_cut() -> None:
    (found,) = findings(["s" * 30], **{"s" * 30: [tool("t" * 60)]})
    assert (found.id, found.severity) == ("names_hashed", "note")
    assert "a shorter name" in str(found.remedy)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"inputSchema": {"type": "string"}}, 'has the type "string"'),
        ({"inputSchema": {}}, "has the type null"),
        ({"inputSchema": True}, "is true, no object"),
        ({"inputSchema": None}, "is null, no object"),
        ({"inputSchema": []}, "is [], no object"),
        ({"inputSchema": {"type": "object", "anyOf": []}}, "anyOf at its root"),
        ({"inputSchema": {"type": "object", "allOf": []}}, "allOf at its root"),
        ({"outputSchema": {"properties": {}}}, "outputSchema has the type null"),
    ],
)
def test_a_schema_that_clients_stumble_upon_is_told_with_its_tool(
    bad: dict[str, Any], told: str
) -> None:
    """
    B094: some clients show no tool at all because of one.
    """
    (found,) = findings(["s"], s=[tool("good"), {**tool("bad"), **bad}])
    assert (found.id, found.server) == ("tool_schema", "s")
    assert "'bad'" in found.message and told in found.message
    assert 'tools.deny = ["bad"]' in str(found.remedy)


def test_a_tool_without_a_schema() -> None:
    (found,) = findings(["s"], s=[{"name": "bare"}])
    assert "no inputSchema" in found.message


def test_many_odd_schemas_are_one_line() -> None:
    (found,) = findings(["s"], s=[tool(str(n), inputSchema=None) for n in range(9)])
    assert found.message.endswith("and 6 more")
