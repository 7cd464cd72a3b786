"""Reading a list until it is whole."""

from __future__ import annotations

import itertools
import json

import pytest

from mcpd.core.catalog.model import Kind, ListError
from mcpd.core.catalog.paging import Hints, Limits, Paging


def page(*names: str, cursor: str | None = None) -> bytes:
    result: dict[str, object] = {"tools": [{"name": name} for name in names]}
    if cursor is not None:
        result["nextCursor"] = cursor
    return json.dumps(result).encode()


def names(paging: Paging) -> list[str]:
    return [item.identity for item in paging.listing().items]


def test_every_page_is_read():
    """
    B057: seven tools by two are seven tools.
    """
    paging = Paging(Kind.TOOLS)
    assert paging.take(page("a", "b", cursor="2")) == "2"
    assert paging.take(page("c", "d", cursor="")) == ""
    assert paging.take(page("e")) is None
    assert names(paging) == ["a", "b", "c", "d", "e"]
    assert paging.notes == []


@pytest.mark.parametrize("cursors", [["1", "1"], ["1", "2", "1"], ["", ""]])
def test_a_cursor_that_does_not_advance_ends_the_list(cursors: list[str]):
    """
    B057: constant and cyclic cursors; the tools are listed once, and the log says why.
    """
    paging = Paging(Kind.TOOLS)
    for cursor in cursors[:-1]:
        assert paging.take(page("a", "b", cursor=cursor)) == cursor
    assert paging.take(page("a", "b", cursor=cursors[-1])) is None
    assert names(paging) == ["a", "b"]
    assert paging.notes == ["tools/list: its cursor does not advance; stopped there"]


def test_a_page_that_is_no_list_raises():
    paging = Paging(Kind.TOOLS)
    paging.take(page("a", cursor="1"))
    with pytest.raises(ListError):
        paging.take(b"{}")


def test_a_list_over_the_limit_is_cut_there():
    paging = Paging(Kind.TOOLS, Limits(entries=3))
    assert paging.take(page("a", "b", cursor="1")) == "1"
    assert paging.take(page("c", "d", cursor="2")) is None
    assert names(paging) == ["a", "b", "c"]
    assert paging.notes == ["tools/list: more than 3 entries; cut there"]


def test_a_single_page_over_the_limit_is_not_served_whole():
    paging = Paging(Kind.TOOLS, Limits(entries=1))
    assert paging.take(page("a", "b")) is None
    assert json.loads(paging.listing().page()) == {"tools": [{"name": "a"}]}


def test_a_full_list_that_would_go_on_is_cut_without_its_cursor():
    paging = Paging(Kind.TOOLS, Limits(entries=1))
    assert paging.take(page("a", cursor="1")) is None
    assert json.loads(paging.listing().page()) == {"tools": [{"name": "a"}]}


def test_a_list_of_exactly_the_limit_is_whole():
    paging = Paging(Kind.TOOLS, Limits(entries=2))
    assert paging.take(page("a", "b")) is None
    assert paging.listing().page() == page("a", "b")
    assert paging.notes == []


def test_a_list_of_too_many_bytes_is_cut_there():
    paging = Paging(Kind.TOOLS, Limits(size_bytes=100))
    assert paging.take(page("a", cursor="1")) == "1"
    assert paging.take(page("b" * 90, "c")) is None
    assert names(paging) == ["a"]
    assert paging.notes == ["tools/list: more than 100 bytes; cut there"]


def test_empty_pages_without_end_come_to_an_end():
    """
    B057: the cursor advances for ever, and nothing is listed.
    """
    paging = Paging(Kind.TOOLS, Limits(entries=100))
    assert next(n for n in itertools.count(1) if paging.take(page(cursor=str(n))) is None) == 100


def test_what_was_left_out_is_noted():
    """
    B094: a person can find out which server lists something odd.
    """
    paging = Paging(Kind.TOOLS)
    paging.take(b'{"tools":[1,{"name":"a"},{}]}')
    assert paging.notes == [
        "tools/list: 2 entries left out: without 'name', or over 16777216 bytes"
    ]


def test_nothing_read_is_an_empty_list():
    assert Paging(Kind.PROMPTS).listing().page() == b'{"prompts":[]}'


def modern_page(text: str, **members: object) -> bytes:
    return json.dumps({"tools": [{"name": text}], **members}).encode()


@pytest.mark.parametrize(
    ("pages", "hints"),
    [
        ([{"ttlMs": 5000, "cacheScope": "public"}], Hints(5000, "public")),
        ([{}], Hints(0, "private")),
        ([{"ttlMs": 9, "cacheScope": "everyone"}], Hints(9, "private")),
        ([{"ttlMs": -1}, {"ttlMs": 5.5}], Hints(0, "private")),
        ([{"ttlMs": "5", "cacheScope": 1}], Hints(0, "private")),
        (
            [{"ttlMs": 7, "cacheScope": "public"}, {"ttlMs": 5, "cacheScope": "public"}],
            Hints(5, "public"),
        ),
        (
            [{"ttlMs": 5, "cacheScope": "public"}, {"ttlMs": 7, "cacheScope": "private"}],
            Hints(5, "private"),
        ),
    ],
)
def test_the_strictest_hints_of_all_pages_count(pages: list[dict[str, object]], hints: Hints):
    paging = Paging(Kind.TOOLS)
    for number, members in enumerate(pages):
        more = {"nextCursor": str(number)} if number < len(pages) - 1 else {}
        paging.take(modern_page(str(number), **members, **more), is_modern=True)
    assert paging.hints == hints


def test_result_type_and_hints_of_a_modern_server_are_removed():
    """
    Clients of the older era are served the same bytes.
    """
    whole = b'{"resultType":"complete","tools":[ {"name":"a","ttlMs":1} ],"ttlMs":5,"x":1.0}'
    paging = Paging(Kind.TOOLS)
    paging.take(whole, is_modern=True)
    assert paging.listing().page() == b'{"tools":[ {"name":"a","ttlMs":1} ],"x":1.0}'


def test_the_result_of_a_legacy_server_is_unchanged():
    whole = b'{"resultType":"complete","tools":[],"ttlMs":5}'
    paging = Paging(Kind.TOOLS)
    paging.take(whole)
    assert paging.listing().page() == whole
    assert paging.hints is None


@pytest.mark.parametrize("kind", ['"input_required"', '"task"', "7"])
def test_a_result_of_another_type_is_no_list(kind: str):
    with pytest.raises(ListError, match="is of the type"):
        Paging(Kind.TOOLS).take(b'{"resultType":%b,"tools":[]}' % kind.encode(), is_modern=True)


def test_hints_have_less_time_when_they_are_older():
    assert Hints(5000, "public").less(1.5) == Hints(3500, "public")
    assert Hints(5000, "public").less(60) == Hints(0, "public")
