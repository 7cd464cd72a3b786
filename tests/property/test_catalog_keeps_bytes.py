"""Whatever a server lists, its entries' bytes are what clients get."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.catalog.merge import Part, aggregate_page
from mcpd.core.catalog.model import Catalog, Kind, ListError, merge_pages, parse_page
from mcpd.core.catalog.naming import qualify
from mcpd.core.catalog.templates import UriMatch
from mcpd.core.wire.splice import elements, replace

text = st.text(st.characters(categories=None), max_size=8)  # lone surrogates included
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(text | st.just("name"), inner, max_size=3)
    ),
    max_leaves=8,
)
separators = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")])
entries = st.dictionaries(text.filter(lambda key: key != "name"), values, max_size=4)


@st.composite
def written_items(draw: st.DrawFn) -> bytes:
    item = draw(entries)
    members = list(item.items())
    members.insert(draw(st.integers(0, len(members))), ("name", draw(text)))
    return json.dumps(dict(members), separators=draw(separators)).encode()


@given(st.lists(written_items(), max_size=5))
def test_items_keep_their_bytes_through_pages_and_the_disk(items: list[bytes]):
    result = b'{"tools":[%b]}' % b",".join(items)
    listing = merge_pages([parse_page(Kind.TOOLS, result)])
    assert [item.raw for item in listing.items] == items
    assert listing.page() == result
    catalog = Catalog().replaced(Kind.TOOLS, listing)
    assert Catalog.from_cache(catalog.to_cache()) == catalog


@given(written_items())
def test_only_the_name_is_replaced(item: bytes):
    changed = replace(item, "name", b'"Q"')
    before, after = json.loads(item), json.loads(changed)
    assert after.pop("name") == "Q"
    name = before.pop("name")
    assert before == after
    assert list(before) == list(after)
    assert replace(changed, "name", json.dumps(name).encode()) == item


@given(st.lists(written_items(), max_size=5))
def test_an_array_is_split_without_loss(items: list[bytes]):
    assert elements(b"[ %b\n]" % b" , ".join(items)) == items


@given(st.lists(written_items(), max_size=5))
def test_the_aggregate_renames_and_nothing_else(items: list[bytes]):
    listing = merge_pages([parse_page(Kind.TOOLS, b'{"tools":[%b]}' % b",".join(items))])
    names = qualify(["s", "t"], "s", (item.identity for item in listing.items))
    page = json.loads(aggregate_page(Kind.TOOLS, [Part("s", listing, names)]))
    first = {item["name"]: item for item in reversed([json.loads(raw) for raw in items])}
    back = {qualified: name for name, qualified in names.items()}
    assert {
        back[tool["name"]]: {**tool, "name": back[tool["name"]]} for tool in page["tools"]
    } == first


@given(st.binary(max_size=60) | st.text('{}[]",:\\tools name1', max_size=40).map(str.encode))
def test_no_bytes_of_a_server_raise_anything_but_the_one_error(data: bytes):
    for result in (data, b'{"tools":%b}' % data, b'{"tools":[%b]}' % data):
        try:
            page = parse_page(Kind.TOOLS, result)
        except ListError:
            continue
        Catalog.from_cache(Catalog().replaced(Kind.TOOLS, merge_pages([page])).to_cache())
    assert Catalog.from_cache(data) is None
    replace(data, "name", b"1")


@given(st.text("ab/{}+?,*", max_size=12), st.text("ab/?", max_size=12))
def test_no_template_raises(template: str, uri: str):
    assert UriMatch(uri).any_of([template]) in (True, False)


@given(st.lists(st.sampled_from(["a", "b/", "{x}", "{+x}", "."]), max_size=6), st.data())
def test_an_expansion_fits_its_template(parts: list[str], data: st.DataObject):
    def expand(part: str) -> str:
        if part == "{x}":
            return data.draw(st.text("ab.%", min_size=1, max_size=4))
        return data.draw(st.text("ab./", min_size=1, max_size=4)) if part == "{+x}" else part

    uri = "".join(expand(part) for part in parts)
    assert UriMatch(uri).any_of(["".join(parts)])
