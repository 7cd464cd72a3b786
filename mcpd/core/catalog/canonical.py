"""Definitions of servers as JSON trees, and their canonical form: in one spelling."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from json.encoder import encode_basestring as _quote
from operator import itemgetter
from typing import Any, Final, NamedTuple

from mcpd.core.catalog.model import Kind

PINNED: Final = {
    Kind.TOOLS: ("name", "title", "description", "inputSchema", "outputSchema", "annotations"),
    Kind.PROMPTS: ("name", "title", "description", "arguments"),
    Kind.TEMPLATES: ("uriTemplate", "name", "title", "description"),
}
"""The members of each kind of definition that are pinned. Resources are not: they are content."""

_HINTS: Final = {
    "readOnlyHint": "false",
    "destructiveHint": "true",
    "idempotentHint": "false",
    "openWorldHint": "true",
}  # what an absent hint means: MCP 2025-11-25, schema, ToolAnnotations
_TEXTS: Final = frozenset(("title", "description"))
_WORDS: Final = {None: "null", True: "true", False: "false"}
_name: Final = itemgetter(0)
_FOLDED_MOST: Final = 256 * 1024  # characters of a text in which space is folded, in one step
_SPACE: Final = re.compile(r"[ \t\n\r\f\v]{2,}|[\t\n\r\f\v]")  # all that is not one space


class Members(list[tuple[str, Any]]):
    """A JSON object as it is written: in order, with members that are there twice."""


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


class Form(NamedTuple):
    """The canonical form of a definition, as digests of the whole and of its parts."""

    hash: str
    text: str
    """Of its title and its description."""
    schema: str
    """Of what it takes: ``inputSchema``, or the arguments of a prompt."""
    hints: str
    output: str


_decode = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_float=Number,
    parse_int=Number,
    parse_constant=Number,
    strict=False,
).decode


def tree_of(raw: bytes) -> Any:
    """Return JSON as a tree: objects are ``Members``, numbers ``Number``, the rest as usual.

    Raises:
        ValueError: it cannot be read.
        RecursionError: it is nested too deep.
    """
    return _decode(raw.decode())


def form_of(kind: Kind, raw: bytes, tree: Any = None) -> Form:
    """Return the canonical form of a definition; ``tree`` is that of ``raw``, where it is known.

    Members are sorted by code point, without space between them. Strings are UTF-8 with the
    shortest escapes, numbers as they were written. ``required`` is sorted, an absent hint is its
    default, and a run of white space in a text is one space. What cannot be read counts byte by
    byte.
    """
    try:
        members = tree_of(raw) if tree is None else tree
        found: dict[str, list[Any]] = {name: [] for name in PINNED[kind]}
        for name, value in members if isinstance(members, Members) else ():
            if name in found:
                found[name].append(value)
        whole = {name: "".join(_member(name, each) for each in found[name]) for name in found}
        if kind is Kind.TOOLS:
            whole["annotations"] = _annotations(found["annotations"])
    except (ValueError, TypeError, RecursionError):
        digest = digest_of(raw)
        return Form(digest, digest, digest, digest, digest)
    schema = whole.get("inputSchema", whole.get("arguments", ""))
    return Form(
        _sha256("\0".join(f"{name}:{whole[name]}" for name in sorted(whole))),
        _sha256(whole["title"] + "\0" + whole["description"]),
        _sha256(schema),
        _sha256(whole.get("annotations", "")),
        _sha256(whole.get("outputSchema", "")),
    )


def text_hash(text: str) -> str:
    """Return the digest of a text in which a run of white space counts as one space."""
    return _sha256(_folded(text))


def _folded(text: str) -> str:
    """Return a text in which a run of white space is one space, as long as it is no flood."""
    return text if len(text) > _FOLDED_MOST else _SPACE.sub(" ", text)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def strings(tree: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each string of a tree with the names of the members that it is below, in order."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), tree)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, Number):
            continue
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, Members):
            pending.extend(((*path, name), each) for name, each in reversed(value))
        elif isinstance(value, list):
            pending.extend((path, each) for each in reversed(value))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _annotations(found: list[Any]) -> str:
    """Return hints with the defaults of those that are absent."""
    if not found:
        found = [Members()]
    if len(found) > 1 or not isinstance(found[0], Members):
        return "".join(_member("annotations", each) for each in found)
    said = [(name, _member(name, value)) for name, value in found[0]]
    names = {name for name, _ in said}
    said.extend((name, value) for name, value in _HINTS.items() if name not in names)
    return _object(said)


def _member(name: str, value: Any) -> str:
    """Return the value of a member: text and ``required`` have rules of their own."""
    if type(value) is str:
        return _quote(_folded(value) if name in _TEXTS else value)
    if name == "required" and type(value) is list and all(type(each) is str for each in value):
        return "[" + ",".join(sorted(map(_quote, value))) + "]"
    return _value(value)


def _value(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return _quote(value)
    if kind is Members:
        return _object([(name, _member(name, each)) for name, each in value])
    if kind is Number:
        return str(value)
    if kind is list:
        return "[" + ",".join(map(_value, value)) + "]"
    return _WORDS[value]


def _object(members: list[tuple[str, str]]) -> str:
    members.sort(key=_name)
    return "{" + ",".join([f"{_quote(name)}:{value}" for name, value in members]) + "}"
