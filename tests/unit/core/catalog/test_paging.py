"""Reading a list until it is whole."""

from __future__ import annotations

import itertools
import json

import pytest

from mcpd.core.catalog.model import Kind, ListError
from mcpd.core.catalog.paging import Limits, Paging


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
    assert paging.notes == ["tools/list: 2 entries without 'name' left out"]


def test_nothing_read_is_an_empty_list():
    assert Paging(Kind.PROMPTS).listing().page() == b'{"prompts":[]}'
