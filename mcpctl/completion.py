"""Names for shell completion, from the running daemon; none, without delay, if none runs."""

from __future__ import annotations

from typing import Any

import click

from mcpd.daemon_start.place import locate
from mcpd.errors import McpdError

TIMEOUT_S = 0.5


def servers(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the servers whose names begin with ``incomplete``."""
    return [name for name in _servers(context) if name.startswith(incomplete)]


def approvals(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the questions that are open whose ids begin with ``incomplete``."""
    found = [each["id"] for each in _ask(context, "mcpd/approvals", {}, "open")]
    return [ident for ident in found if ident.startswith(incomplete)]


def call(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return completions for ``call``: servers, tools or arguments."""
    given = context.params.get("words") or ()
    if not given:
        return _first_word(context, incomplete)
    if len(given) == 1 and "." not in given[0]:
        return [n for n in _names(_tools(context, given[0])) if n.startswith(incomplete)]
    server, tool = given[:2] if "." not in given[0] else given[0].split(".", 1)
    for listed in _tools(context, server):
        if listed["name"] == tool:
            return _arguments(listed, incomplete)
    return []


def _first_word(context: click.Context, incomplete: str) -> list[str]:
    if "." not in incomplete:
        return [name for name in _servers(context) if name.startswith(incomplete)]
    server = incomplete.split(".", 1)[0]
    names = [f"{server}.{name}" for name in _names(_tools(context, server))]
    return [name for name in names if name.startswith(incomplete)]


def _arguments(tool: dict[str, Any], incomplete: str) -> list[str]:
    schema = tool.get("inputSchema")
    known = schema.get("properties") if isinstance(schema, dict) else None
    keys = [f"{key}=" for key in known if key.isprintable()] if isinstance(known, dict) else []
    return [key for key in keys if key.startswith(incomplete)]


def _names(items: list[dict[str, Any]]) -> list[str]:
    """Return the names without line breaks, since the shell reads one name a line."""
    return [item["name"] for item in items if item["name"].isprintable()]


def _servers(context: click.Context) -> list[str]:
    return _names(_ask(context, "mcpd/status", {}, "servers"))


def _tools(context: click.Context, server: str) -> list[dict[str, Any]]:
    return _ask(context, "mcpd/tools", {"server": server}, "tools")


def _ask(
    context: click.Context, method: str, params: dict[str, Any], member: str
) -> list[dict[str, Any]]:
    from mcpd.client.control import Control

    named = context.find_root().params
    path, _ = locate(named.get("socket"), named.get("config"))
    try:
        with Control.open(path) as control:
            found: list[dict[str, Any]] = control.request(method, params, timeout=TIMEOUT_S)[member]
            return found
    except McpdError:  # an error message would disturb the command line
        return []
