"""Which tools are shown."""

from __future__ import annotations

import pytest

from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Item, Kind, Listing, merge_pages, parse_page


@pytest.mark.parametrize(
    ("allow", "deny", "name", "shown"),
    [
        (["*"], [], "anything", True),
        ([], [], "anything", False),
        (["read_*"], [], "read_file", True),
        (["read_*"], [], "write_file", False),
        (["read_*"], [], "Read_file", False),
        (["*"], ["write_*"], "write_file", False),
        (["write_file"], ["write_*"], "write_file", False),
        (["a", "b?"], [], "bc", True),
        (["[ab]x"], [], "bx", True),
        (["a.c"], [], "abc", False),
        (["*"], ["x"], "a\nb", True),
        (["*"], ["x"], "", True),
    ],
)
def test_deny_wins_over_allow(allow: list[str], deny: list[str], name: str, shown: bool):
    assert Filter(allow, deny).admits(name) is shown


def test_what_is_shown_keeps_its_bytes_and_order():
    page = parse_page(
        Kind.TOOLS, b'{"tools": [{"name":"b", "x": 1.0},{"name":"write"},{"name":"a"}],"_meta":{}}'
    )
    listing = merge_pages([page])
    assert (
        Filter(deny=["write"]).apply(listing).page()
        == b'{"tools":[{"name":"b", "x": 1.0},{"name":"a"}]}'
    )


def test_a_filter_that_hides_nothing_changes_nothing():
    listing = merge_pages([parse_page(Kind.TOOLS, b'{"tools": [ {"name":"a"} ]}')])
    assert Filter.ALL.apply(listing) is listing
    assert Filter(deny=["x"]).apply(listing) is listing


def test_filters_are_equal_when_their_patterns_are():
    assert Filter(["a"], ["b"]) == Filter(("a",), ("b",))
    assert hash(Filter(["a"])) == hash(Filter(["a"]))
    assert Filter(["a"]) != Filter(["b"])


def test_a_filter_can_be_narrowed() -> None:
    shown = Filter(("a*",), ("ab",)).narrowed(("*c", "*d"), read_only=False)
    assert [name for name in ("ac", "ad", "ab", "abc", "bc", "ae") if shown.admits(name)] == [
        "ac",
        "ad",
        "abc",
    ]
    assert Filter.ALL.narrowed((), read_only=False) is Filter.ALL
    assert not Filter.ALL.narrowed(("*",), read_only=False).admits_all


def test_only_tools_that_say_so_are_read_only() -> None:
    shown = Filter.ALL.narrowed((), read_only=True)
    raw = [b'{"name":"a","annotations":{"readOnlyHint":true}}', b'{"name":"b"}']
    listing = Listing(Kind.TOOLS, [Item("a", raw[0]), Item("b", raw[1])])
    assert [item.identity for item in shown.apply(listing).items] == ["a"]
