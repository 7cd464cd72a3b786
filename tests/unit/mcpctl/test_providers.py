"""Tools in the form of model providers."""

from __future__ import annotations

import re
from typing import Any

from mcpctl import providers

TOOLS: list[dict[str, Any]] = [
    {
        "server": "files",
        "name": "read.file",
        "qualified_name": "files__read_file",
        "title": "Read",
        "description": "Reads a file",
        "inputSchema": {
            "$schema": "x",
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {"server": "files", "name": "bare", "qualified_name": "files__bare", "title": "Bare"},
    {"server": "brought-1", "name": "ü" * 80, "inputSchema": {"type": "object"}},
    {"server": "brought-1", "name": "ä" * 80, "inputSchema": {"anyOf": [{}, {}]}},
]


def test_openai() -> None:
    found = providers.formatted(TOOLS, "openai")
    assert found[0] == {
        "type": "function",
        "function": {
            "name": "files__read_file",
            "description": "Reads a file",
            "parameters": TOOLS[0]["inputSchema"],
        },
    }
    assert found[1]["function"] == {
        "name": "files__bare",
        "description": "Bare",
        "parameters": {"type": "object", "properties": {}},
    }
    assert found[2]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_anthropic() -> None:
    found = providers.formatted(TOOLS, "anthropic")
    assert found[0] == {
        "name": "files__read_file",
        "description": "Reads a file",
        "input_schema": TOOLS[0]["inputSchema"],
    }
    assert all(set(each) <= {"name", "description", "input_schema"} for each in found)


def test_names_are_legal_distinct_and_lead_back_to_their_tools() -> None:
    back = providers.names(TOOLS)
    assert len(back) == len(TOOLS)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in back)
    assert list(back) == [each["name"] for each in providers.formatted(TOOLS, "anthropic")]
    assert [(each["server"], each["tool"]) for each in back.values()] == [
        (tool["server"], tool["name"]) for tool in TOOLS
    ]


def test_schemas_that_providers_refuse_are_named() -> None:
    [name] = providers.refused(TOOLS)
    assert providers.names(TOOLS)[name]["tool"] == "ä" * 80
