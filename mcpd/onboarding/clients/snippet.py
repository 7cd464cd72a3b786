"""Reads a text with servers in any client's format, such as one from a README."""

from __future__ import annotations

import os
from typing import Any, Final

from mcpd.editing.file import Format
from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath
from mcpd.onboarding.clients import reading
from mcpd.onboarding.clients.client import Client
from mcpd.onboarding.clients.entries import Found, is_server
from mcpd.onboarding.clients.entries import read as read_entry
from mcpd.onboarding.clients.launch import COMMANDS, URLS, flat
from mcpd.onboarding.clients.table import BY_ID, MCPD

_TABLES: Final[tuple[tuple[KeyPath, str], ...]] = (
    (("mcpServers",), ""),
    (("mcp_servers",), "codex"),
    (("servers",), "vscode"),
    (("mcp", "servers"), "opencode"),
    (("context_servers",), "zed"),
    (("amp.mcpServers",), "amp"),
    (("extensions",), "goose"),
    (("mcp",), "opencode"),
)
"""Where a table of servers stands, and whose spelling that is."""


def read(text: str) -> list[Found]:
    """Return the servers in a text: a whole file of any client, a part of one, or bare entries.

    A bare entry has an empty name. Raises ``ConfigError`` for a text that cannot be parsed.
    """
    content = parsed(text)
    if not isinstance(content, dict):
        raise ConfigError("expected a table of servers")
    client, key = dialect(content)
    if client is MCPD and is_entry(content):
        return [read_entry("", content, MCPD)]
    table: Any = content
    for part in key:
        table = table[part]
    if isinstance(table, list):
        elements = [(str(each.get("name") or ""), each) for each in table if isinstance(each, dict)]
    elif isinstance(table, dict):
        elements = list(table.items())
    else:
        raise ConfigError(f"{'.'.join(map(str, key))} is not a table of servers")
    return [
        read_entry(str(name), each, client, (*key, name))
        for name, each in elements
        if is_server(each)
    ]


def parsed(text: str) -> Any:
    """Return a text as data, whichever format it has. JSON may lack its outermost braces."""
    start = text.lstrip("\ufeff \t\r\n")
    raw = text.encode()
    if start.startswith(("{", "[{", "//", "/*")):
        return reading.data(raw, "jsonc")
    if start.startswith('"'):
        return reading.data(b"{" + raw.strip().rstrip(b",") + b"}", "jsonc")
    forms: tuple[Format, ...] = ("toml", "yaml")
    if not any(line.lstrip().startswith("[") or " = " in line for line in start.splitlines()):
        forms = ("yaml",)
    for form in forms:
        try:
            content = reading.data(raw, form)
        except ConfigError:
            if form == forms[-1] or form == "toml":
                raise
        else:
            return content
    raise AssertionError  # the last one raised


def format_of(path: str) -> Format:
    """Return the format of a file by the ending of its name."""
    endings: dict[str, Format] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
    return endings.get(os.path.splitext(path)[1].lower(), "jsonc")


def dialect(content: Any) -> tuple[Client, KeyPath]:
    """Return whose spelling a file has, and where its servers stand; mcpd's own in doubt."""
    for key, name in _TABLES:
        table = content
        for part in key:
            table = table.get(part) if isinstance(table, dict) else None
        if isinstance(table, list) and key == ("mcpServers",):
            return BY_ID["continue"], key
        if isinstance(table, dict):
            return _client(name, [each for each in table.values() if isinstance(each, dict)]), key
    return MCPD, () if isinstance(content, dict) else ("mcpServers",)


def _client(name: str, entries: list[dict[str, Any]]) -> Client:
    """Return the client that spells a table of this kind, with these entries, so."""
    if name == "opencode" and not any(each.get("type") in ("local", "remote") for each in entries):
        return BY_ID["crush"]
    if name == "" and any(isinstance(each.get("transport"), dict) for each in entries):
        return BY_ID["cline-cli"]
    return BY_ID.get(name, MCPD)


def is_entry(content: Any) -> bool:
    """Return whether data is one server's entry."""
    if not isinstance(content, dict):
        return False
    return any(isinstance(flat(content).get(key), (str, list)) for key in (*COMMANDS, *URLS))
