"""Many servers' lists as one."""

from __future__ import annotations

from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Catalog, Kind, merge_pages, parse_page
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.state.aggregate import Aggregate

ONE = Entry(name="one", launch="1")
TWO = Entry(name="two", launch="2")


def catalog(kind: Kind, *names: str) -> Catalog:
    items = b",".join(b'{"%b":"%b"}' % (kind.identity.encode(), n.encode()) for n in names)
    page = parse_page(kind, b'{"%b":[%b]}' % (kind.key.encode(), items))
    return Catalog().replaced(kind, merge_pages([page]))


def aggregate(*entries: Entry, **catalogs: Catalog) -> Aggregate:
    made = Aggregate(lambda server: catalogs.get(server, Catalog()))
    made.configure({entry.name: entry for entry in entries})
    return made


def test_servers_are_in_the_order_of_the_configuration():
    off = Entry(name="off", launch="3", unavailable=Failure("server_disabled", "off"))
    ad_hoc = Entry(name="ad-hoc", launch="4", is_listed=False)
    assert aggregate(TWO, off, ad_hoc, ONE).servers() == ["two", "one"]


def test_names_lead_to_a_server_and_back():
    made = aggregate(ONE, TWO, one=catalog(Kind.TOOLS, "a"), two=catalog(Kind.TOOLS, "a", "b"))
    assert made.names(Kind.TOOLS) == ["one__a", "two__a", "two__b"]
    assert made.route(Kind.TOOLS, "two__b") == ("two", "b")
    assert made.route(Kind.TOOLS, "two__c") is None
    assert made.route(Kind.PROMPTS, "two__b") is None
    assert made.qualified("two", Kind.TOOLS) == {"a": "two__a", "b": "two__b"}
    assert made.qualified("three", Kind.TOOLS) == {}


def test_what_is_hidden_has_no_name():
    entry = Entry(name="one", launch="1", filter=Filter(deny=["b*"]))
    made = aggregate(entry, one=catalog(Kind.TOOLS, "a", "b"))
    assert made.page(Kind.TOOLS) == b'{"tools":[{"name":"one__a"}]}'
    assert made.route(Kind.TOOLS, "one__b") is None


def test_a_list_is_worked_out_anew_when_it_changes():
    catalogs = {"one": catalog(Kind.TOOLS, "a")}
    made = Aggregate(lambda server: catalogs.get(server, Catalog()))
    made.configure({"one": ONE, "two": TWO})
    assert made.names(Kind.TOOLS) == ["one__a"]
    catalogs["one"] = catalog(Kind.TOOLS, "b")
    assert made.names(Kind.TOOLS) == ["one__a"], "until it is told"
    made.forget("one", Kind.TOOLS)
    assert made.names(Kind.TOOLS) == ["one__b"]
    assert made.page(Kind.TOOLS) is made.page(Kind.TOOLS)


def test_owners_change_with_their_lists():
    catalogs = {"two": catalog(Kind.RESOURCES, "x:1")}
    made = Aggregate(lambda server: catalogs.get(server, Catalog()))
    made.configure({"one": ONE, "two": TWO})
    assert made.owner("x:1") == "two"
    catalogs["one"] = catalog(Kind.RESOURCES, "x:1")
    made.forget("one", Kind.RESOURCES)
    assert made.owner("x:1") == "one"
    assert made.owner("x:2") is None
    catalogs["two"] = catalog(Kind.TEMPLATES, "x:{n}")
    made.forget("two", Kind.TEMPLATES)
    assert made.owner("x:2") == "two"
    assert made.template_owner("x:{n}") == "two"
    assert made.template_owner("x:2") is None


def test_a_name_may_belong_to_every_server_whose_names_begin_like_it():
    """
    One that has listed may list it now; one that has not yet may do so.
    """
    long = Entry(name="n" * 60, launch="5")
    made = aggregate(ONE, TWO, long, one=catalog(Kind.TOOLS, "a"))
    assert made.candidates("two__x") == ["two"]
    assert made.candidates("one__x") == ["one"]
    assert made.candidates("n" * 50 + "_a1b2c3d4e5") == ["n" * 60]
    assert made.candidates("three__x") == []


def test_instructions_are_those_that_are_known():
    made = aggregate(TWO, ONE)
    assert made.instructions({"one": b'"Be \\u0061"', "two": None, "three": b'"no"'}) == (
        b'"one: Be a"'
    )
    assert made.instructions({}) is None
