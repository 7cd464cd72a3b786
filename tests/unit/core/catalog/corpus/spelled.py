"""Ways to write a definition otherwise that are no change of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from mcpd.core.catalog.canonical import Members, Number
from mcpd.core.catalog.model import Kind

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
        is_broken = any("\ud800" <= each <= "\udfff" for each in value)
        return json.dumps(value, ensure_ascii=is_broken)
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
    is_list = name == "required" and type(value) is list
    return value[::-1] if is_list and all(type(each) is str for each in value) else value


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


def ways_of(kind: Kind) -> dict[str, Callable[[Members], str]]:
    """Return the ways for one kind of definition, by name."""
    return NO_CHANGE | (NO_CHANGE_OF_TOOLS if kind is Kind.TOOLS else {})
