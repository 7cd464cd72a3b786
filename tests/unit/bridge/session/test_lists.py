"""What the client was last told in each list, so that it hears of one that is another now."""

from __future__ import annotations

import json

import pytest

from mcpd.bridge.session.lists import Lists

TOOLS = b"tools/list"
ASKED = [b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n']


def answer(ident: object, **result) -> list[bytes]:
    return [json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}).encode() + b"\n"]


def told(**result) -> Lists:
    lists = Lists()
    lists.record(TOOLS, ASKED, answer(1, **result))
    return lists


def test_the_same_list_under_another_id_is_the_same():
    assert not told(tools=[{"name": "a"}]).has_changed(TOOLS, answer("x-1", tools=[{"name": "a"}]))


def test_another_list_is_told_once():
    lists = told(tools=[{"name": "a"}])
    other = answer(1, tools=[{"name": "b"}])
    assert lists.has_changed(TOOLS, other)
    assert not lists.has_changed(TOOLS, other)


def test_the_age_of_a_list_changes_nothing():
    lists = told(tools=[], ttlMs=3000, cacheScope="private")
    assert not lists.has_changed(TOOLS, answer(1, tools=[], ttlMs=17, cacheScope="private"))
    assert lists.has_changed(TOOLS, answer(1, tools=[], ttlMs=17, cacheScope="public"))


def test_an_error_tells_nothing():
    lists = told(tools=[])
    failed = [b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"result":0}}}\n']
    assert not lists.has_changed(TOOLS, failed)
    assert not lists.has_changed(b"prompts/list", answer(1, prompts=[]))
    assert Lists().requests() == []


@pytest.mark.parametrize("size", [10, 400_000])
def test_a_list_may_come_in_pieces(size):
    lists = Lists()
    whole = answer(1, tools=[{"name": "x" * size}])[0]
    lists.record(TOOLS, ASKED, [whole[:60], whole[60:]])
    assert not lists.has_changed(TOOLS, [whole])


def test_a_later_page_is_not_the_list():
    lists = Lists()
    page = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}\n'
    lists.record(TOOLS, [page], answer(1, tools=[]))
    assert lists.requests() == []


def test_the_last_request_is_the_one_to_repeat():
    lists = told(tools=[])
    again = b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}\n'
    lists.record(TOOLS, [again], answer(2, tools=[]))
    assert lists.requests() == [(TOOLS, again)]
