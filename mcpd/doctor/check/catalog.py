"""Checks the servers' tools: name collisions, and schemas that some clients refuse."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcpd.core.catalog.naming import SEPARATOR, sanitise
from mcpd.doctor.finding import Finding, note, warning

Tool = Mapping[str, Any]
NAMED = 3
"""Tools that a line lists by name."""


def check(names: Sequence[str], tools: Mapping[str, Sequence[Tool]]) -> Iterator[Finding]:
    """Yield the findings about the tools of each server; ``names`` are all configured servers."""
    alike = {}
    for name in names:
        if like := _like(name, names):
            alike[name] = like
            yield warning(
                "names_collide",
                f"in the aggregate its tools could be mistaken for those of {', '.join(like)}, so "
                "their names end in a hash",
                "rename one of the servers",
                name,
            )
    for server, listed in tools.items():
        if server not in alike:
            yield from _renamed(server, listed)
        yield from _schemas(server, listed)


def _like(name: str, names: Sequence[str]) -> list[str]:
    """Return the servers whose tools could be confused with those of ``name`` (see ``naming``)."""
    own = sanitise(name)
    return [
        each
        for each in names
        if each != name and (sanitise(each) == own or own.startswith(sanitise(each) + SEPARATOR))
    ]


def _renamed(server: str, listed: Sequence[Tool]) -> Iterator[Finding]:
    plain: dict[str, list[Tool]] = defaultdict(list)
    for tool in listed:
        plain[sanitise(server) + SEPARATOR + sanitise(tool["name"])].append(tool)
    for tools in plain.values():
        if len(tools) > 1:
            names = " and ".join(repr(tool["name"]) for tool in tools[:NAMED])
            yield warning(
                "tools_collide",
                f"its tools {names} would have one name in the aggregate, so both end in a hash",
                f"`deny` in its `tools` hides one of them: mcpctl tools {server} shows the names",
                server,
            )
    hashed = [
        tools[0]
        for name, tools in plain.items()
        if len(tools) == 1 and tools[0].get("qualified_name", name) != name
    ]
    if hashed:
        first = hashed[0]
        yield note(
            "names_hashed",
            f"{_count(hashed)} a name in the aggregate that was cut or made unmistakable: "
            f"{first['name']!r} is {first['qualified_name']}",
            "a shorter name of the server leaves more room" if _is_long(server, hashed) else None,
            server,
        )


def _schemas(server: str, listed: Sequence[Tool]) -> Iterator[Finding]:
    odd = [(tool["name"], fault) for tool in listed if (fault := _fault(tool)) is not None]
    if odd:
        told = "; ".join(f"{name!r}: {fault}" for name, fault in odd[:NAMED])
        more = "" if len(odd) <= NAMED else f"; and {len(odd) - NAMED} more"
        names = json.dumps([name for name, _ in odd])
        yield warning(
            "tool_schema",
            f"some clients refuse all tools because of {'one' if len(odd) == 1 else 'some'} of "
            f"them: {told}{more}",
            f"update the server, or hide what is odd: tools.deny = {names}",
            server,
        )


def _fault(tool: Tool) -> str | None:
    """Return what some clients refuse in a tool's schemas, or ``None``."""
    if "inputSchema" not in tool:
        return "no inputSchema"
    for key in ("inputSchema", "outputSchema"):
        schema = tool.get(key)
        if key not in tool:
            continue
        if not isinstance(schema, dict):
            return f"its {key} is {json.dumps(schema)[:40]}, no object"
        if schema.get("type") != "object":
            return f'its {key} has the type {json.dumps(schema.get("type"))[:40]}, not "object"'
        combined = [word for word in ("anyOf", "oneOf", "allOf") if word in schema]
        if combined:
            return f"its {key} has {combined[0]} at its root"
    return None


def _count(tools: Sequence[Tool]) -> str:
    return "one of its tools has" if len(tools) == 1 else f"{len(tools)} of its tools have"


def _is_long(server: str, tools: Sequence[Tool]) -> bool:
    return any(len(server) + len(SEPARATOR) + len(tool["name"]) > 64 for tool in tools)
