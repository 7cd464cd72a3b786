"""Tools in the form in which the APIs of model providers take them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

FORMATS = ("openai", "anthropic")

_REFUSED = ("anyOf", "oneOf", "allOf")
"""What no provider takes at the top of a schema."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_KEPT = 53
"""Characters of a name before its hash: 64 in all, which is the least that a provider allows."""

Tool = dict[str, Any]


def formatted(tools: Iterable[Tool], form: str) -> list[Tool]:
    """Return tools as the member ``tools`` of a request; ``form`` is one of ``FORMATS``.

    Names are those of the aggregate: they fit both providers, and no two are equal. A server that
    is not in the aggregate has names with a hash.
    """
    return [_openai(tool) if form == "openai" else _anthropic(tool) for tool in tools]


def names(tools: Iterable[Tool]) -> dict[str, dict[str, str]]:
    """Return the server and the tool behind each name in ``formatted``."""
    return {_name(tool): {"server": tool["server"], "tool": tool["name"]} for tool in tools}


def refused(tools: Iterable[Tool]) -> list[str]:
    """Return the names of tools whose schema providers refuse: it is a choice of schemas."""
    return [_name(tool) for tool in tools if not _schema(tool).keys().isdisjoint(_REFUSED)]


def _name(tool: Tool) -> str:
    name = tool.get("qualified_name")
    if isinstance(name, str):
        return name
    server, own = str(tool["server"]), str(tool["name"])
    whole = sha256(f"{server}\0{own}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_ILLEGAL.sub('_', f'{server}__{own}')[:_KEPT]}_{whole[:10]}"


def _openai(tool: Tool) -> Tool:
    function = {"name": _name(tool), **_description(tool)}
    return {"type": "function", "function": {**function, "parameters": _schema(tool)}}


def _anthropic(tool: Tool) -> Tool:
    return {
        "name": _name(tool),
        **_description(tool),
        "input_schema": _schema(tool),
    }


def _description(tool: Tool) -> dict[str, str]:
    text = tool.get("description") or tool.get("title")
    return {"description": text} if isinstance(text, str) and text else {}


def _schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of the arguments; providers want an object that names its properties."""
    found = tool.get("inputSchema")
    schema = found if isinstance(found, dict) else {}
    return {"type": "object", "properties": {}} | schema
