"""The table of what a client may ask."""

from __future__ import annotations

import msgspec
import pytest

from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS, Route
from mcpd.core.wire.envelope import Params


def test_each_method_is_written_as_json():
    for name, method in CLIENT_REQUESTS.items():
        assert (method.name, method.quoted) == (name, msgspec.json.encode(name))


def test_required_members_are_among_those_we_look_at():
    known = {field.name for field in msgspec.structs.fields(Params)}
    for method in CLIENT_REQUESTS.values():
        assert known.issuperset(method.required)


@pytest.mark.parametrize("name", ["resources/read", "prompts/get", "completion/complete"])
def test_what_changes_nothing_may_be_repeated(name: str):
    assert CLIENT_REQUESTS[name].may_repeat


def test_calls_are_repeated_only_if_the_tool_says_so():
    """
    B044: the table must not say yes for all tools.
    """
    assert not CLIENT_REQUESTS["tools/call"].may_repeat


def test_each_list_knows_what_it_lists():
    lists = [m for m in CLIENT_REQUESTS.values() if m.route is Route.LIST]
    assert {m.kind for m in lists} == {"tools", "prompts", "resources", "templates"}
    assert all(m.capability for m in lists)


def test_levels_are_in_order():
    assert (LEVELS[0], LEVELS[-1]) == ("debug", "emergency")
    assert len(LEVELS) == 8
