"""Which tools are shown."""

from __future__ import annotations

import pytest

from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Item, Kind, Listing, merge_pages, parse_page
from mcpd.core.catalog.patterns import Patterns
from mcpd.principal import EVERYTHING, Scope


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
        (["*"], ["write_*"], "wri\u3164te_file", False),
        (["*"], ["write_*"], "wri\u200b\u2800te_file", False),
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
    shown = Filter(("a*",), ("ab",)).within(Scope(tools=(("*c", "*d"),)), "s")
    assert [name for name in ("ac", "ad", "ab", "abc", "bc", "ae") if shown.admits(name)] == [
        "ac",
        "ad",
        "abc",
    ]
    assert Filter.ALL.within(EVERYTHING, "s") is Filter.ALL
    assert not Filter.ALL.within(Scope(tools=(("*",),)), "s").admits_all


def test_a_pattern_of_a_scope_may_name_the_server() -> None:
    scope = Scope(tools=(("git.log", "read_*"),))
    of_git, of_files = (Filter.ALL.within(scope, server) for server in ("git", "files"))
    assert of_git.admits("log") and not of_git.admits("push") and not of_files.admits("log")
    assert of_git.admits("read_x") and of_files.admits("read_x")


def test_a_tool_matches_one_of_each_group() -> None:
    shown = Filter.ALL.within(Scope(tools=(("read_*",), ("*_file",))), "s")
    assert shown.admits("read_file") and not shown.admits("read_all") and not shown.admits("a_file")


def test_a_server_outside_shows_nothing() -> None:
    shown = Filter.ALL.within(Scope(servers=frozenset(("other",))), "s")
    assert not shown.admits("read") and shown.hidden == frozenset(Kind)


@pytest.mark.parametrize(
    ("scope", "hidden"),
    [
        (Scope(resources=False), {Kind.RESOURCES, Kind.TEMPLATES}),
        (Scope(prompts=False), {Kind.PROMPTS}),
        (Scope(), set()),
    ],
)
def test_other_lists_can_be_hidden(scope: Scope, hidden: set[Kind]) -> None:
    shown = Filter.ALL.within(scope, "s")
    for kind in Kind:
        listing = Listing(kind, [Item("a", b"{}")])
        assert bool(shown.apply(listing).items) is (kind not in hidden)


def test_only_tools_that_say_so_are_read_only() -> None:
    shown = Filter.ALL.within(Scope(read_only=True), "s")
    raw = [b'{"name":"a","annotations":{"readOnlyHint":true}}', b'{"name":"b"}']
    listing = Listing(Kind.TOOLS, [Item("a", raw[0]), Item("b", raw[1])])
    assert [item.identity for item in shown.apply(listing).items] == ["a"]


def test_a_look_alike_loses_rights_and_wins_none():
    """
    A name is denied by its looks; it is allowed by its letters alone.
    """
    looks = "re\u0430d_file"  # with a Cyrillic letter
    denied = Filter(deny=["read_*"])
    assert not denied.admits("read_file")
    assert not denied.admits(looks)
    assert not denied.admits("READ_FILE")
    allowed = Filter(["read_*"])
    assert allowed.admits("read_file")
    assert not allowed.admits(looks)


def test_names_that_were_matched_are_kept_within_bounds() -> None:
    """
    A client may call a million names that nobody has.
    """
    patterns = Patterns(["read_*", "*_all"], by_looks=True)
    names = [f"{kind}_{n}" for n in range(3000) for kind in ("read", "write")]
    for _ in range(2):
        assert [patterns.matches(name) for name in names] == [True, False] * 3000
    assert len(patterns._known) <= 1000
    assert patterns.matches("x" * 100_000)  # by its length
    assert not any(len(name) > 256 for name in patterns._known)
