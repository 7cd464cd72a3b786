"""What a reload has to touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpd.config.diff import Change, carried_over, diff
from mcpd.config.load import Loaded

if TYPE_CHECKING:
    from tests.unit.config.conftest import Place

FIVE: dict[str, Any] = {name: {"command": name, "env": {"A": "1", "B": "2"}} for name in "abcde"}


def changed(place: Place, before: object, after: object) -> Change:
    return diff(given(place, before), given(place, after))


def given(place: Place, content: object) -> Loaded:
    if not isinstance(content, str):
        content = {"servers": content}
    return place.load(place.write("given.json", content))


def test_one_edit_touches_one_server(place: Place) -> None:
    """
    B108.
    """
    change = changed(place, FIVE, {**FIVE, "c": {"command": "c", "args": ["new"]}})
    assert change == Change(changed=("c",), unchanged=("a", "b", "d", "e"))


def test_names_come_and_go(place: Place) -> None:
    after = {name: entry for name, entry in FIVE.items() if name != "a"} | {"f": {"command": "f"}}
    change = changed(place, FIVE, after)
    assert change == Change(added=("f",), removed=("a",), unchanged=("b", "c", "d", "e"))


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {"a": {"command": "x", "args": ["1"], "env": {"A": "1", "B": "2"}}}}',
        '\n// note\n{"servers": {"a": {\n"command": "x", "args": ["1",],\n"env": {"A": "1", "B": "2"}}}}',
        '{"servers": {"a": {"env": {"B": "2", "A": "1"}, "args": ["1"], "command": "x"}}}',
        '{"mcpServers": {"a": {"command": "x", "args": ["1"], "env": {"A": "1", "B": "2"}}}}',
        '{"servers": {"a": {"command": "x", "args": ["$ONE"], "env": {"A": "1", "B": "2"}, "type": "stdio", "call_timeout": "0s", "odd": 1}}}',
    ],
)
def test_spelling_comments_and_order_touch_nothing(place: Place, text: str) -> None:
    """
    B108: what counts is what the values come to.
    """
    place.env["ONE"] = "1"
    before = {"a": {"command": "x", "args": ["1"], "env": {"A": "1", "B": "2"}}}
    assert changed(place, before, text) == Change(unchanged=("a",))


def test_the_order_of_servers_is_noticed_without_touching_them(place: Place) -> None:
    change = changed(place, FIVE, dict(reversed(FIVE.items())))
    assert change == Change(unchanged=("e", "d", "c", "b", "a"), reordered=True)


def test_a_variable_with_another_value_is_a_change(place: Place) -> None:
    place.env["V"] = "1"
    before = given(place, {"a": {"command": "$V"}})
    place.env["V"] = "2"
    assert diff(before, given(place, {"a": {"command": "$V"}})).changed == ("a",)


@pytest.mark.parametrize("key", ["tools", "excluded_tools"])
def test_filters_alone_leave_the_process(place: Place, key: str) -> None:
    """
    B108: no restart, only another list of tools.
    """
    change = changed(place, {"a": {"command": "x"}}, {"a": {"command": "x", key: ["b"]}})
    assert change == Change(filters_only=("a",))


@pytest.mark.parametrize(
    "more", [{"call_timeout": 5}, {"disabled": True}, {"restart": {"backoff": 0}}, {"cwd": "~"}]
)
def test_any_other_key_is_a_change(place: Place, more: dict[str, Any]) -> None:
    change = changed(
        place, {"a": {"command": "x"}}, {"a": {"command": "x", "tools": ["b"], **more}}
    )
    assert change == Change(changed=("a",))


def test_the_daemons_own_table_is_noticed(place: Place) -> None:
    assert changed(place, "{}", '{"daemon": {"list_wait": 1}}') == Change(daemon=True)
    trust = '{"trust": {"trusted_projects": ["/a"]}}'
    assert changed(place, "{}", trust) == Change(policy=True)


def test_a_bad_entry_leaves_the_good_one_in_force(place: Place) -> None:
    """
    B108: broken, then mended: as it was counts as unchanged, otherwise as changed.
    """
    good = given(place, {"a": {"command": "x"}})
    bad = given(place, {"a": {"command": 5}})
    assert diff(good, bad) == Change(unchanged=("a",), broken=("a",))
    applied = carried_over(good, bad)
    assert applied.entries["a"].launch == good.entries["a"].launch
    assert applied.entries["a"].error == bad.entries["a"].error
    assert applied.errors == bad.errors
    assert diff(applied, good) == Change(unchanged=("a",))
    assert diff(applied, given(place, {"a": {"command": "y"}})) == Change(changed=("a",))
    assert carried_over(applied, bad).entries == applied.entries
    assert carried_over(applied, good) == good


def test_an_entry_that_was_never_good_becomes_so(place: Place) -> None:
    bad, good = given(place, {"a": {"command": 5}}), given(place, {"a": {"command": "x"}})
    assert diff(Loaded(), bad) == Change(added=("a",), broken=("a",))
    applied = carried_over(Loaded(), bad)
    assert applied.entries["a"].launch is None
    assert diff(applied, good) == Change(changed=("a",))


def test_a_disabled_entry_that_turns_bad_stays_disabled(place: Place) -> None:
    off = given(place, {"a": {"command": "x", "disabled": True}})
    applied = carried_over(off, given(place, {"a": {"command": 5}}))
    assert not applied.entries["a"].enabled
    assert applied.entries["a"].error is not None


def test_a_broken_file_changes_nothing(place: Place) -> None:
    good = given(place, FIVE)
    broken = given(place, "{ nonsense")
    applied = carried_over(good, broken)
    assert applied.entries == good.entries
    assert applied.daemon == good.daemon
    assert applied.errors == broken.errors


FAR: dict[str, Any] = {"url": "https://x.example/mcp", "headers": {"X-A": "$V"}}


@pytest.mark.parametrize(
    ("after", "what"),
    [
        ({"serverUrl": "https://x.example/mcp", "http_headers": {"X-A": "1"}}, "unchanged"),
        ({**FAR, "headers": {"X-A": "2"}}, "changed"),
        ({**FAR, "auth": "Bearer x"}, "changed"),
        ({**FAR, "url": "https://y.example/mcp"}, "changed"),
        ({"command": "x"}, "changed"),
        ({**FAR, "tools": {"deny": ["x"]}}, "filters_only"),
        ({**FAR, "headers": {"X-A": "$NO"}}, "unchanged"),
    ],
)
def test_what_changes_a_remote_server(place: Place, after: dict[str, Any], what: str) -> None:
    place.env["V"] = "1"
    assert getattr(changed(place, {"a": FAR}, {"a": after}), what) == ("a",)


def test_a_remote_server_with_a_bad_entry_keeps_its_last_good_one(place: Place) -> None:
    place.env["V"] = "1"
    before = given(place, {"a": FAR})
    kept = carried_over(before, given(place, {"a": {**FAR, "auth": 5}})).entries["a"]
    assert kept.remote == before.entries["a"].remote
    assert "a.auth" in str(kept.error)
