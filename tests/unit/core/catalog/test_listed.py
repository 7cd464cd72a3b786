"""Definitions of real servers: no false alarm, no byte changed, no change where there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import pytest

from mcpd.core.catalog.canonical import Members, Number, form_of, strings, tree_of
from mcpd.core.catalog.examine import Examined, Job, crossed, examine, shadows
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.catalog.pins import Seen, compare
from mcpd.core.catalog.sanitise import Removed, clean_text
from mcpd.core.catalog.scan import Finding, scan_text
from tests.unit.core.catalog.corpus.listed import Listed, servers

LEAST_SERVERS: Final = 40
LEAST_TOOLS: Final = 800
MOST_SOFT: Final = 0.01
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
    assert len(shadowed) <= MOST_SOFT * sum(map(len, tools.values())), shadowed


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

DEFAULTS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
TEXTS: Final = ("title", "description")


def spelled(value: Any, indent: str = "", is_escaped: bool = False) -> str:
    """Write a tree of ``tree_of`` with the indentation and the escapes that are wanted."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        if is_escaped:
            units = value.encode("utf-16-be", "surrogatepass")
            return '"' + "".join(f"\\u{a:02X}{b:02x}" for a, b in zip(*[iter(units)] * 2, strict=True)) + '"'  # fmt: skip
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Members):
        members = [
            f"{spelled(name, '', is_escaped)}{indent[:1]}:{indent}{spelled(each, indent, is_escaped)}"
            for name, each in value
        ]
        return "{" + indent + f"{indent},".join(members) + indent + "}"
    if isinstance(value, list):
        return "[" + ",".join(spelled(each, indent, is_escaped) for each in value) + indent + "]"
    return json.dumps(value)


def mapped(value: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """Return a tree with each value replaced by what ``change`` makes of it and its name."""
    if isinstance(value, Members):
        value = Members((each, mapped(inner, change, each)) for each, inner in value)
    elif isinstance(value, list):
        value = [mapped(each, change) for each in value]
    return change(name, value)


def reordered(name: str, value: Any) -> Any:
    return Members(reversed(value)) if isinstance(value, Members) else value


def required(name: str, value: Any) -> Any:
    is_list = name == "required" and isinstance(value, list)
    return value[::-1] if is_list and all(isinstance(each, str) for each in value) else value


def spaced(name: str, value: Any) -> Any:
    if name not in TEXTS or not isinstance(value, str) or isinstance(value, Number):
        return value
    return re.sub(r"[ \t\n\r\f\v]+", " \n\t", value)


def hinted(tree: Members, hints: Members | None) -> Members:
    """Return a tool whose hints have the members given; ``None`` for no annotations at all."""
    kept = Members(each for each in tree if each[0] != "annotations")
    return kept if hints is None else Members([*kept, ("annotations", hints)])


def hints_of(tree: Members) -> Members:
    found = dict(tree).get("annotations")
    return found if isinstance(found, Members) else Members()


def with_defaults(tree: Members) -> Members:
    said = hints_of(tree)
    missing = [each for each in DEFAULTS.items() if each[0] not in dict(said)]
    return hinted(tree, Members([*said, *missing]))


def without_defaults(tree: Members) -> Members:
    said = [each for each in hints_of(tree) if DEFAULTS.get(each[0]) is not each[1]]
    return hinted(tree, Members(said) if said else None)


def dressed(tree: Members) -> Members:
    rest = [each for each in tree if each[0] not in ("_meta", "icons")]
    return Members([("icons", [Members([("src", "data:,x")])]), *rest, ("_meta", Members([("n", Number("1"))]))])  # fmt: skip


NO_CHANGE: Final[dict[str, Callable[[Members], str]]] = {
    "members in another order": lambda tree: spelled(mapped(tree, reordered)),
    "other spacing": lambda tree: spelled(tree, indent=" \r\n\t"),
    "required in another order": lambda tree: spelled(mapped(tree, required)),
    "every character escaped": lambda tree: spelled(tree, is_escaped=True),
    "runs of white space in texts": lambda tree: spelled(mapped(tree, spaced)),
    "other icons and metadata": lambda tree: spelled(dressed(tree)),
    "all of it": lambda tree: spelled(mapped(mapped(mapped(dressed(tree), reordered), required), spaced), "\n", True),
}  # fmt: skip
NO_CHANGE_OF_TOOLS: Final[dict[str, Callable[[Members], str]]] = {
    "defaults of hints spelled out": lambda tree: spelled(with_defaults(tree)),
    "defaults of hints left out": lambda tree: spelled(without_defaults(tree)),
    "no hints instead of empty ones": lambda tree: spelled(
        hinted(tree, hints_of(tree) or Members()) if hints_of(tree) else hinted(tree, Members())
    ),
}


def trees(server: Listed) -> Iterator[tuple[Kind, Item, Members]]:
    for kind, item in server.each():
        yield kind, item, tree_of(item.raw)


@every_server
def test_what_is_no_change_leaves_the_form(server: Listed) -> None:
    """
    An update that writes the same otherwise must not be reported.
    """
    for kind, item, tree in trees(server):
        form = form_of(kind, item.raw)
        ways = NO_CHANGE | (NO_CHANGE_OF_TOOLS if kind is Kind.TOOLS else {})
        for how, write in ways.items():
            raw = write(tree).encode("utf-8", "surrogatepass")
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

            raw = spelled(mapped(tree, longer)).encode("utf-8", "surrogatepass")
            assert form_of(kind, raw).hash != form.hash, (item.identity, path)
