"""The servers that mcpd's own configuration has, as they are written, and where one is added."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from mcpd import paths
from mcpd.config.files import trust
from mcpd.config.files.candidates import SERVER_TABLES, candidates
from mcpd.onboarding.clients import reading
from mcpd.onboarding.clients.entries import identity
from mcpd.onboarding.clients.snippet import format_of


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured now."""

    path: str
    """The file to which servers are added; it may be missing."""

    table: str
    """The name of the table of servers in it."""

    entries: dict[str, Any]
    """By their names, from all files."""

    def name_of(self, key: tuple[Any, ...]) -> str | None:
        """Return the name of a server with this identity."""
        return next(
            (
                name
                for name, each in self.entries.items()
                if isinstance(each, dict) and identity(each) == key
            ),
            None,
        )


def read(explicit: str | None, env: Mapping[str, str] = os.environ) -> Own:
    """Read the configuration; ``explicit`` is ``--config``.

    Servers are added to the file that ``explicit`` or ``MCPD_CONFIG`` names, else to the user's
    file that has servers, else to the one that exists, else to ``mcp.json``. Raises
    ``ConfigError``.
    """
    files = candidates(explicit, env)
    entries: dict[str, Any] = {}
    tables: dict[str, str | None] = {}
    for path in files:
        raw = trust.read(path)
        if raw is None:
            continue
        content = reading.located(raw, format_of(path), path)
        tables[path] = None
        for key in SERVER_TABLES:
            table = content.get(key) if isinstance(content, dict) else None
            if isinstance(table, dict):
                tables[path] = tables[path] or key
                entries |= table
    own = files if len(files) == 1 else [f for f in files if f.startswith(paths.config_home(env))]
    path = next(
        (each for each in own if tables.get(each)),
        next((each for each in own if each in tables), own[0]),
    )
    usual = "servers" if path.endswith(".toml") else "mcpServers"
    return Own(path=path, table=tables.get(path) or usual, entries=entries)
