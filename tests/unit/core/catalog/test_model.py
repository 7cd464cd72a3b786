"""What a server listed, page by page and whole."""

from __future__ import annotations

import json

import pytest

from mcpd.core.catalog.model import (
    MOST_ENTRIES,
    MOST_ENTRY_BYTES,
    Catalog,
    Item,
    Kind,
    ListError,
    Listing,
    merge_pages,
    parse_page,
)


def tools(*items: str) -> bytes:
    return b'{"tools":[%b]}' % ",".join(items).encode()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Kind.TOOLS, "tools/list tools name tools"),
        (Kind.PROMPTS, "prompts/list prompts name prompts"),
        (Kind.RESOURCES, "resources/list resources uri resources"),
        (Kind.TEMPLATES, "resources/templates/list resourceTemplates uriTemplate resources"),
    ],
)
def test_a_kind_knows_its_words(kind: Kind, words: str):
    assert [kind.method, kind.key, kind.identity, kind.capability] == words.split()
    assert kind.notification == f"notifications/{kind.capability}/list_changed"


def test_an_item_keeps_its_bytes():
    """
    B096: schemas with references, any number, any spelling: as they came.
    """
    raw = '{ "name":"x", "n": 1.50, "big": 1e400, "inputSchema": {"$ref":"#/$defs/a%20b", "$defs" : {"a b":{}}}}'
    page = parse_page(Kind.TOOLS, tools(raw))
    assert page.items == (Item("x", raw.encode()),)
    assert page.items[0].input_schema() == b'{"$ref":"#/$defs/a%20b", "$defs" : {"a b":{}}}'


def test_one_page_is_served_untouched():
    result = b'{"_meta": {"x": 1.0} ,"tools": [ {"name":"b"}, {"name":"a"} ], "ttlMs":5}'
    listing = merge_pages([parse_page(Kind.TOOLS, result)])
    assert listing.page() == result
    assert [item.identity for item in listing.items] == ["b", "a"]


def test_pages_are_served_as_one_in_the_servers_order():
    """
    B057: clients that never page see every tool.
    """
    first = parse_page(Kind.TOOLS, b'{"tools":[{"name":"z"}],"nextCursor":"1"}')
    second = parse_page(Kind.TOOLS, b'{"tools":[{"name":"a", "x":1}]}')
    assert (first.next_cursor, second.next_cursor) == ("1", None)
    assert merge_pages([first, second]).page() == b'{"tools":[{"name":"z"},{"name":"a", "x":1}]}'


def test_an_entry_that_a_later_page_repeats_is_listed_once():
    """
    B057: a cursor that does not advance made 160 tools of 8.
    """
    page = parse_page(Kind.TOOLS, b'{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"1"}')
    assert merge_pages([page, page]).page() == b'{"tools":[{"name":"a"},{"name":"b"}]}'


def test_a_first_page_alone_does_not_lead_anywhere():
    """
    Its cursor would be the server's, and we serve one page.
    """
    page = parse_page(Kind.TOOLS, b'{"tools":[{"name":"a"}],"nextCursor":"1"}')
    assert page.whole is None
    assert merge_pages([page]).page() == b'{"tools":[{"name":"a"}]}'


def test_an_empty_cursor_is_a_cursor():
    assert parse_page(Kind.TOOLS, b'{"tools":[],"nextCursor":""}').next_cursor == ""


@pytest.mark.parametrize("cursor", [b"null", b"5", b"[]"])
def test_a_cursor_that_is_no_string_is_none(cursor: bytes):
    page = parse_page(Kind.TOOLS, b'{"tools":[],"nextCursor":%b}' % cursor)
    assert page.next_cursor is None


@pytest.mark.parametrize(
    "schema",
    [
        '{"type":"string"}',
        "{}",
        '{"anyOf":[{}]}',
        "true",
        "null",
        "[]",
        '{"oneOf":[],"if":{}}',
        "7",
    ],
)
def test_a_tool_with_an_odd_schema_hides_no_other(schema: str):
    """
    B094: passed on as the server wrote it.
    """
    odd = f'{{"name":"odd","inputSchema":{schema},"outputSchema":{{"properties":{{}}}}}}'
    page = parse_page(Kind.TOOLS, tools('{"name":"good"}', odd))
    assert [item.identity for item in page.items] == ["good", "odd"]
    assert page.items[1].raw == odd.encode()
    assert page.items[1].input_schema() == schema.encode()
    assert not page.dropped


@pytest.mark.parametrize(
    "bad", ["1", "null", "[]", '"x"', "{}", '{"name":1}', '{"name":null}', '{"Name":"x"}']
)
def test_what_is_no_entry_is_left_out_alone(bad: str):
    """
    B094: it is counted, and the good tool beside it is served.
    """
    page = parse_page(Kind.TOOLS, tools(bad, '{"name":"good"}'))
    assert [item.identity for item in page.items] == ["good"]
    assert page.dropped == 1
    assert merge_pages([page]).page() == b'{"tools":[{"name":"good"}]}'


def test_lone_surrogates_are_kept_as_they_were_written():
    """
    JavaScript servers cut strings in the middle of a pair, and msgspec refuses the result.
    """
    raw = '{"name":"x\\ud800","description":"\\uDC00 \\u00e9","n":1e400,"m":2.50}'
    page = parse_page(Kind.TOOLS, tools(raw, '{"name":"good"}'))
    assert [item.raw for item in page.items] == [raw.encode(), b'{"name":"good"}']
    assert page.items[0].identity == "x\ud800"
    assert merge_pages([page]).page() == tools(raw, '{"name":"good"}')


@pytest.mark.parametrize(
    "result",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"tools":null}',
        b'{"tools":{}}',
        b'{"tools":"x"}',
        b'{"prompts":[]}',
        b'{"tools":[}',
        b'{"tools":[{"name":"\xff"}]}',
        b'{"tools":[1 2]}',
        b'{"tools":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(12),
)
def test_what_is_no_list_is_an_error(result: bytes):
    with pytest.raises(ListError, match=r"tools/list|'tools'"):
        parse_page(Kind.TOOLS, result)


def test_hints_count_only_when_true():
    def item(annotations: str) -> Item:
        return Item("x", f'{{"name":"x","annotations":{annotations}}}'.encode())

    assert item('{"readOnlyHint":true}').read_only
    assert not item('{"readOnlyHint":true}').idempotent
    assert item('{"idempotentHint": true , "title":"\\ud800"}').idempotent
    for odd in (
        "null",
        "[]",
        "{}",
        '{"readOnlyHint":1}',
        '{"readOnlyHint":"true"}',
        '{"readOnlyHint":false}',
    ):
        assert not item(odd).read_only
    assert not Item("x", b'{"name":"x"}').read_only


def test_a_listing_finds_its_entries():
    listing = merge_pages(
        [parse_page(Kind.TOOLS, tools('{"name":"a","n":1}', '{"name":"a","n":2}', '{"name":"b"}'))]
    )
    found = listing.get("a")
    assert found is not None
    assert found.member("n") == b"1"
    assert listing.get("c") is None
    assert len(listing) == 3
    assert len(Listing.empty(Kind.TOOLS)) == 0


def test_listings_are_equal_when_they_read_the_same():
    """
    It decides whether clients are told ``list_changed``.
    """
    one = merge_pages([parse_page(Kind.TOOLS, tools('{"name":"a"}'))])
    same = merge_pages([parse_page(Kind.TOOLS, tools('{"name":"a"}'))])
    other = merge_pages([parse_page(Kind.TOOLS, tools('{"name":"a","x":1}'))])
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != Listing(Kind.PROMPTS, one.items)
    assert Listing.empty(Kind.TOOLS).page() == b'{"tools":[]}'


def test_a_catalog_survives_the_disk():
    """
    A server that sleeps is listed with the same bytes, so that nothing seems to have changed.
    """
    odd = '{"tools": [ {"name":"x\\ud800", "n": 1e400, "é": "\\"\\u0000"} ], "_meta":{}}'.encode()
    pages = [
        parse_page(Kind.RESOURCES, b'{"resources":[{"uri":"a:1"}],"nextCursor":"2"}'),
        parse_page(Kind.RESOURCES, b'{"resources":[{"uri":"a:2"}]}'),
    ]
    catalog = (
        Catalog()
        .replaced(Kind.TOOLS, merge_pages([parse_page(Kind.TOOLS, odd)]))
        .replaced(Kind.RESOURCES, merge_pages(pages))
        .replaced(Kind.PROMPTS, Listing.empty(Kind.PROMPTS))
    )
    back = Catalog.from_cache(catalog.to_cache())
    assert back == catalog
    assert back is not None
    assert back.get(Kind.TEMPLATES) is None
    listing = back.get(Kind.TOOLS)
    assert listing is not None
    assert listing.page() == odd
    assert back.tool("x\ud800") is not None
    assert back.tool("y") is None
    assert Catalog().tool("x") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"\xff",
        b'{"version":1}',
        b'{"version":2,"pages":{}}',
        b'{"version":1,"pages":{"x":"{}"}}',
        b'{"version":1,"pages":{"tools":"{}"}}',
        b'{"version":1,"pages":{"tools":5}}',
        b'{"version":1,"pages":{"tools":"\\ud800"}}',
        b'{"version":1,"pages":{"tools":"' + b"[" * 100_000 + b'"}}',
        b"[" * 100_000,
    ],
    ids=range(12),
)
def test_a_cache_that_is_not_ours_is_no_catalog(data: bytes):
    assert Catalog.from_cache(data) is None


def test_a_cache_cut_anywhere_is_no_catalog():
    catalog = Catalog().replaced(
        Kind.TOOLS, merge_pages([parse_page(Kind.TOOLS, tools('{"name":"a"}'))])
    )
    data = catalog.to_cache()
    assert all(Catalog.from_cache(data[:end]) is None for end in range(len(data)))
    assert json.loads(data)["version"] == 1


def test_at_most_one_entry_too_many_is_read():
    """
    A server that wrote ten million entries in a line held everybody up for 26 s, and took 1.6 GiB.
    """
    for entry in (b"1", b"{}", b'{"name":"t"}', b'{"name":"\\ud800"}'):
        page = parse_page(Kind.TOOLS, b'{"tools":[%b]}' % b",".join([entry] * 20_000))
        assert len(page.items) + page.dropped == MOST_ENTRIES + 1


@pytest.mark.parametrize("count", [0, 1, 255, 256, 5000, MOST_ENTRIES, MOST_ENTRIES + 1])
def test_a_list_of_any_length_is_whole(count: int):
    """
    Long lists have a decoder of their own.
    """
    entries = [f'{{"name":"t{number}"}}' for number in range(count)]
    page = parse_page(Kind.TOOLS, tools(*entries))
    assert [item.raw.decode() for item in page.items] == entries
    assert page.dropped == 0


def test_an_entry_that_is_too_long_is_left_out_and_the_others_are_not():
    long = b'{"name":"long","description":"%b"}' % (b"x" * MOST_ENTRY_BYTES)
    page = parse_page(Kind.TOOLS, b'{"tools":[{"name":"a"},%b,{"name":"b"}]}' % long)
    assert [item.identity for item in page.items] == ["a", "b"]
    assert page.dropped == 1


def test_lone_surrogates_in_a_page_are_kept():
    page = parse_page(Kind.TOOLS, b'{"tools":[{"name":"a"},{"name":"\\ud800"}],"nextCursor":"2"}')
    assert [item.raw for item in page.items] == [b'{"name":"a"}', b'{"name":"\\ud800"}']
    assert page.next_cursor == "2"
