"""The headers that repeat parts of a modern request's body: how values are written, and where from.

Source: MCP 2026-07-28, basic/transports/streamable-http: ``MCP-Protocol-Version``, ``Mcp-Method``,
``Mcp-Name`` and ``Mcp-Param-*``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.wire import envelope

NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "task_id",
    "tasks/update": "task_id",
    "tasks/cancel": "task_id",
}
"""Which field of ``Params`` the header ``Mcp-Name`` repeats, by method."""

_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=\Z", re.DOTALL)
_PLAIN: Final = re.compile(r"(?!=\?base64\?)[!-~](?:[ -~]*[!-~])?\Z")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_INTEGER: Final = re.compile(rb"-?[0-9]{1,400}\Z")
_TYPES: Final = ("string", "integer", "boolean")
_DEPTH: Final = 16
"""How deep a schema's properties are searched for annotations."""

_SCHEMAS: Final = (
    *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems"),
    *("unevaluatedProperties", "not", "if", "then", "else", "prefixItems", "allOf", "anyOf"),
    *("oneOf",),
)
"""Keywords of JSON Schema whose value is a schema, or an array of schemas."""

_NAMED_SCHEMAS: Final = ("patternProperties", "dependentSchemas", "$defs", "definitions")
"""Those whose value is an object of schemas."""

Parameters = dict[str, tuple[tuple[str, ...], str]]
"""Arguments that a tool wants repeated in headers: by the header's name without ``Mcp-Param-``,
the path of the argument and its type."""


class Routing(msgspec.Struct, frozen=True, gc=False):
    """What the headers of an HTTP request say of the request to a server that is its body.

    ``version`` is the revision of a modern request, empty for one of a legacy revision.
    """

    method: str
    version: str = ""
    name: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    """Headers without ``Mcp-Param-``, and their values."""


def encoded(text: str) -> str:
    """Return text as the value of a header.

    Text outside of printable ASCII is written as ``=?base64?…?=``: base64 of its UTF-8.
    """
    if _PLAIN.match(text) or not text:
        return text
    raw = text.encode("utf-8", "replace")
    return f"=?base64?{base64.b64encode(raw).decode()}?="


def decoded(value: str) -> str | None:
    """Return the text of a header's value; ``None`` for one that is encoded wrongly."""
    found = _ENCODED.match(value)
    if found is None:
        return value
    try:
        raw = base64.b64decode(found[1], validate=True)
        if base64.b64encode(raw).decode() != found[1]:
            return None  # not the canonical padding
        return raw.decode()
    except (binascii.Error, ValueError):
        return None


def parameters(schema: bytes | None) -> Parameters | None:
    """Return the arguments that a tool wants repeated in headers, these in lower case.

    Return ``None`` where an annotation is no name of a header, is not of a simple type, or is in a
    place where no argument is known to be: clients must not use such a tool.
    """
    found: Parameters = {}
    if schema is None or b"x-mcp-header" not in schema:
        return found
    try:
        whole = msgspec.json.decode(schema)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return found
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), whole)]
    for path, each in waiting:  # it grows
        if not isinstance(each, dict):
            continue
        if "x-mcp-header" in each:
            header, kind = each["x-mcp-header"], each.get("type")
            is_name = isinstance(header, str) and _TOKEN.match(header) is not None
            if not path or not is_name or kind not in _TYPES or header.lower() in found:
                return None
            found[header.lower()] = (path, kind)
        inner = each.get("properties")
        if isinstance(inner, dict):
            known = None if path is None or len(path) >= _DEPTH else path
            waiting += ((None if known is None else (*known, name), inner[name]) for name in inner)
        for keyword in _SCHEMAS:
            value = each.get(keyword)
            waiting += ((None, other) for other in (value if isinstance(value, list) else [value]))
        for keyword in _NAMED_SCHEMAS:
            value = each.get(keyword)
            waiting += (
                (None, other) for other in (value if isinstance(value, dict) else {}).values()
            )
    return found


def argument(arguments: envelope.Bytes, path: tuple[str, ...]) -> Raw | None:
    """Return an argument; ``None`` where it is absent or null."""
    found: envelope.Bytes = arguments
    for name in path:
        members = envelope.object_of(found) if found is not UNSET else None
        found = (members or {}).get(name, UNSET)
    return None if found is UNSET or bytes(found) == b"null" else found


def repeated(wanted: Parameters, arguments: envelope.Bytes) -> Iterator[tuple[str, str]]:
    """Yield the headers, without ``Mcp-Param-``, that repeat the arguments of a call."""
    for header, (path, kind) in wanted.items():
        given = argument(arguments, path)
        if given is None:
            continue
        text = envelope.text(given)
        raw = bytes(given)
        if kind == "string" and text is not None:
            yield header, encoded(text)
        elif (kind == "integer" and _INTEGER.match(raw)) or (
            kind == "boolean" and raw in (b"true", b"false")
        ):
            yield header, raw.decode()
