"""The view of the aggregate."""

from __future__ import annotations

import json

from mcpd.core.catalog.merge import Owners, Part, aggregate_page, instructions, route_names
from mcpd.core.catalog.model import Kind, Listing, merge_pages, parse_page
from mcpd.core.catalog.naming import qualify


def listing(kind: Kind, *items: str) -> Listing:
    result = f'{{"{kind.key}":[{",".join(items)}]}}'.encode()
    return merge_pages([parse_page(kind, result)])


def part(servers: list[str], server: str, *items: str, kind: Kind = Kind.TOOLS) -> Part:
    entries = listing(kind, *items)
    names = qualify(servers, server, (item.identity for item in entries.items))
    return Part(server, entries, names)


def test_tools_are_in_config_order_then_the_servers_own():
    """
    B098: the same bytes in whichever order the servers became ready.
    """
    servers = ["zeta", "alpha"]
    parts = [
        part(servers, "zeta", '{"name":"b"}', '{"name":"a"}'),
        part(servers, "alpha", '{"name":"c"}'),
    ]
    page = aggregate_page(Kind.TOOLS, parts)
    assert page == b'{"tools":[{"name":"zeta__b"},{"name":"zeta__a"},{"name":"alpha__c"}]}'
    again = [
        part(servers, "zeta", '{"name":"b"}', '{"name":"a"}'),
        part(servers, "alpha", '{"name":"c"}'),
    ]
    assert aggregate_page(Kind.TOOLS, again) == page


def test_nothing_but_the_name_changes():
    """
    B096: the schema is not touched, even where it speaks of a ``name``.
    """
    raw = '{ "title": "T", "name" : "x.y", "inputSchema":{"properties":{"name":{"type":"string"}},"n":1e400}, "s":"\\ud800" }'
    page = aggregate_page(Kind.TOOLS, [part(["s"], "s", raw)])
    assert page == b'{"tools":[' + raw.replace('"x.y"', '"s__x_y"').encode() + b"]}"


def test_prompts_have_qualified_names():
    parts = [
        part(["a", "b"], server, '{"name":"greet"}', kind=Kind.PROMPTS) for server in ("a", "b")
    ]
    assert (
        aggregate_page(Kind.PROMPTS, parts)
        == b'{"prompts":[{"name":"a__greet"},{"name":"b__greet"}]}'
    )


def test_no_servers_list_nothing():
    assert aggregate_page(Kind.TOOLS, []) == b'{"tools":[]}'
    assert (
        aggregate_page(Kind.TEMPLATES, [Part("a", Listing.empty(Kind.TEMPLATES))])
        == b'{"resourceTemplates":[]}'
    )


def test_a_name_that_a_server_lists_twice_is_there_once():
    assert (
        aggregate_page(Kind.TOOLS, [part(["s"], "s", '{"name":"a","n":1}', '{"name":"a","n":2}')])
        == b'{"tools":[{"name":"s__a","n":1}]}'
    )


def test_names_lead_back_to_server_and_name():
    """
    B093: the reverse map is exact.
    """
    servers = ["a_b", "a", "x.y", "x_y"]
    tools = {"a_b": ["c"], "a": ["b_c", "C", "c"], "x.y": ["t"], "x_y": ["t"]}
    parts = [part(servers, s, *(json.dumps({"name": n}) for n in tools[s])) for s in servers]
    routes = route_names(parts)
    assert sorted(routes.values()) == sorted((s, n) for s in servers for n in tools[s])
    listed = [tool["name"] for tool in json.loads(aggregate_page(Kind.TOOLS, parts))["tools"]]
    assert listed == list(routes)


def test_a_filtered_list_keeps_its_names():
    """
    The names are made from all that the server lists, so hiding one tool renames no other.
    """
    entries = listing(Kind.TOOLS, '{"name":"x.y"}', '{"name":"x_y"}')
    names = qualify(["s"], "s", ["x.y", "x_y"])
    shown = Part("s", Listing(Kind.TOOLS, entries.items[:1]), names)
    assert json.loads(aggregate_page(Kind.TOOLS, [shown]))["tools"] == [{"name": names["x.y"]}]


def test_a_uri_belongs_to_the_first_server_that_lists_it():
    parts = [
        Part("one", listing(Kind.RESOURCES, '{"uri":"a:1","n":1.0}')),
        Part("two", listing(Kind.RESOURCES, '{"uri":"a:2"}', '{"uri":"a:1","n":2}')),
    ]
    assert (
        aggregate_page(Kind.RESOURCES, parts)
        == b'{"resources":[{"uri":"a:1","n":1.0},{"uri":"a:2"}]}'
    )
    owners = Owners(parts, [])
    assert (owners.owner("a:1"), owners.owner("a:2"), owners.owner("a:3")) == ("one", "two", None)


def test_a_uri_in_no_list_goes_to_the_first_matching_template():
    templates = [
        Part("one", listing(Kind.TEMPLATES, '{"uriTemplate":"x:{"}', '{"uriTemplate":"a:{id}"}')),
        Part(
            "two",
            listing(Kind.TEMPLATES, '{"uriTemplate":"a:{id}"}', '{"uriTemplate":"b:{+path}"}'),
        ),
    ]
    owners = Owners([Part("two", listing(Kind.RESOURCES, '{"uri":"a:2"}'))], templates)
    assert owners.owner("a:1") == "one"
    assert owners.owner("a:2") == "two"
    assert owners.owner("b:x/y") == "two"
    assert owners.owner("c:1") is None
    assert (
        owners.template_owner("a:{id}"),
        owners.template_owner("b:{+path}"),
        owners.template_owner("c"),
    ) == ("one", "two", None)
    assert aggregate_page(Kind.TEMPLATES, templates).count(b"a:{id}") == 1


def test_instructions_are_a_paragraph_for_each_server_that_has_some():
    assert (
        instructions([("a", "Be kind.\n"), ("b", None), ("c", " "), ("d", "One.\n\nTwo.")])
        == "a: Be kind.\n\nd: One.\n\nTwo."
    )
    assert instructions([("a", None)]) is None
