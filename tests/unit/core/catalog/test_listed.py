"""Definitions of real servers: no false alarm, no byte changed, no change where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

from mcpd.core.catalog.canonical import Members, form_of, strings, tree_of
from mcpd.core.catalog.examine import Examined, Job, crossed, examine, shadows
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.catalog.pins import Seen, compare
from mcpd.core.catalog.sanitise import Removed, clean_text
from mcpd.core.catalog.scan import Finding, scan_text
from tests.unit.core.catalog.corpus.listed import Listed, servers
from tests.unit.core.catalog.corpus.spelled import mapped, spelled, ways_of

LEAST_SERVERS: Final = 100
LEAST_TOOLS: Final = 2000
MOST_SOFT: Final = 0.01
MOST_SHADOWED: Final = 0.02
ONE_BY_ONE: Final = 5
"""Definitions of a server that are written in each way by itself."""
INVISIBLE: Final[dict[str, set[str]]] = {}
"""Servers whose definitions have invisible characters, and which: they are removed."""

every_server = pytest.mark.parametrize(
    "server", [pytest.param(each, id=each.package) for each in servers()]
)


def looked_at(server: Listed) -> dict[Kind, tuple[Examined, ...]]:
    return {kind: examine(Job(kind, tuple(items))) for kind, items in server.items.items()}


@cache
def examined_once() -> dict[str, dict[Kind, tuple[Examined, ...]]]:
    return {each.package: looked_at(each) for each in servers()}


def examined(server: Listed) -> dict[Kind, tuple[Examined, ...]]:
    return examined_once()[server.package]


def alarms(server: Listed) -> Iterator[Finding]:
    """Yield what is found in a server by itself."""
    for kind, found in examined(server).items():
        for each in found:
            yield from each.findings
        yield from crossed(kind, found)
    yield from scan_text("instructions", "", server.instructions)[0]


def test_there_are_many_of_them() -> None:
    """
    A few would prove nothing.
    """
    assert len(servers()) >= LEAST_SERVERS
    assert sum(len(each.items.get(Kind.TOOLS, [])) for each in servers()) >= LEAST_TOOLS


@every_server
def test_a_real_server_has_no_hard_finding(server: Listed) -> None:
    """
    Under ``hold`` a tool with one would not be listed.
    """
    assert [each for each in alarms(server) if each.weight == "hard"] == []


def test_hardly_any_tool_has_a_soft_finding() -> None:
    """
    A warning that is mostly wrong is not read.
    """
    found = [each for server in servers() for each in alarms(server) if each.weight == "soft"]
    tools = {(each.kind, each.name) for each in found if each.kind == "tool"}
    total = sum(len(each.items.get(Kind.TOOLS, [])) for each in servers())
    assert len(tools) <= MOST_SOFT * total, found


def test_servers_side_by_side_are_no_look_alikes() -> None:
    """
    A person may have all of them. Two that say the same, or name the other's tools, are few.
    """
    tools = {each.package: examined(each).get(Kind.TOOLS, ()) for each in servers()}
    shadowed: set[tuple[str, str]] = set()
    for package, own in tools.items():
        others = {name: each for name, each in tools.items() if name != package}
        names = [each.item.identity for every in others.values() for each in every]
        assert [each for each in crossed(Kind.TOOLS, own, names) if each.weight == "hard"] == []
        shadowed |= {(package, each.name) for each in shadows(own, others)}
    assert len(shadowed) <= MOST_SHADOWED * sum(map(len, tools.values())), shadowed


@every_server
def test_texts_of_a_real_server_come_through(server: Listed) -> None:
    """
    Byte for byte, but for characters that nobody can see.
    """
    gone: set[str] = set()
    for kind, found in examined(server).items():
        assert [each.item.raw for each in found] == [each.raw for each in server.items[kind]]
        for each in found:
            gone |= {character for notice in each.notices for character in notice.characters}
            assert bool(each.notices) == (each.clean != each.item.raw)
    removed = Removed()
    clean_text(server.instructions, "invisible", removed)
    assert gone | removed.characters == INVISIBLE.get(server.package, set())


@every_server
def test_the_same_list_gives_the_same_findings(server: Listed) -> None:
    """
    Whoever asks twice is told the same.
    """
    assert looked_at(server) == examined(server)


# -- what is no change -----------------------------------------------------------------------------


def trees(server: Listed) -> Iterator[tuple[Kind, Item, Members]]:
    for kind, item in server.each():
        yield kind, item, tree_of(item.raw)


@every_server
def test_what_is_no_change_leaves_the_form(server: Listed) -> None:
    """
    An update that writes the same otherwise must not be reported.
    """
    for number, (kind, item, tree) in enumerate(trees(server)):
        form = form_of(kind, item.raw)
        ways = ways_of(kind)
        for how in ways if number < ONE_BY_ONE else ["all of it"]:
            raw = ways[how](tree).encode()
            assert form_of(kind, raw) == form, (item.identity, how)


@every_server
def test_a_list_in_another_order_is_no_change(server: Listed) -> None:
    """
    Some servers keep their tools in a set.
    """
    for kind, items in server.items.items():
        first = {each.identity: Seen.of(form_of(kind, each.raw), each.raw) for each in items}
        table = compare(None, first)
        assert compare(table, dict(reversed(first.items()))) is table


@every_server
def test_each_word_counts(server: Listed) -> None:
    """
    The form of a definition with one letter more in any of its texts is another one.
    """
    pinned = {"title", "description", "inputSchema", "outputSchema", "annotations", "arguments"}
    for kind, item, tree in trees(server):
        form = form_of(kind, item.raw)
        texts = [(path, text) for path, text in strings(tree) if path and path[0] in pinned]
        for path, text in texts[:: len(texts) // 3 + 1]:

            def longer(_: str, value: Any, wanted: str = text) -> Any:
                return wanted + "x" if type(value) is str and value == wanted else value

            raw = spelled(mapped(tree, longer)).encode()
            assert form_of(kind, raw).hash != form.hash, (item.identity, path)
