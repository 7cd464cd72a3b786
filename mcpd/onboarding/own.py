"""The servers that mcpd's own configuration has, as they are written, and where one is added."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mcpd import paths
from mcpd.config.files import trust
from mcpd.config.files.candidates import SERVER_TABLES, candidates
from mcpd.errors import ConfigError
from mcpd.onboarding.clients import reading
from mcpd.onboarding.clients.launch import identity
from mcpd.onboarding.clients.snippet import format_of

if TYPE_CHECKING:
    from mcpd.editing.file import File


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured now."""

    path: str
    """The file to which servers are added; it may be missing."""

    table: str
    """The name of the table of servers in it."""

    entries: dict[str, Any]
    """By their names, from all files."""


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


def add(
    own: Own,
    entries: Mapping[str, Mapping[str, Any]],
    *,
    private: bool,
    comments: Sequence[str] = (),
) -> bool:
    """Add servers, and comments behind them, to the configuration; return whether it changed.

    ``private`` keeps others from reading the file. Raises ``ConfigError``, also for a name that
    another server has got meanwhile.
    """
    from mcpd.editing import replace
    from mcpd.editing.edits import Put
    from mcpd.editing.file import parse

    form = format_of(own.path)

    def edit(raw: bytes | None) -> bytes | None:
        is_empty = raw is None or not raw.strip()
        file = parse(b"{}\n" if is_empty and form != "toml" else raw or b"", form)
        table = (file.data or {}).get(own.table, {})
        edits = []
        for name, entry in entries.items():
            there = table.get(name)
            if not isinstance(there, dict):
                edits.append(Put((own.table, name), dict(entry)))
            elif identity(there) != identity(entry):
                raise ConfigError(f"{own.path}: {name} was added meanwhile", hint="try again")
        if not edits:
            return raw
        return _with_comments(file.edited(edits), own.table, comments).encode()

    return replace.change(own.path, edit, private=private)


def _with_comments(file: File, table: str, comments: Sequence[str]) -> File:
    """Return the file with comments at the end of the table, those that are not there yet."""
    from mcpd.editing.edits import PutSource

    lines = [" ".join(each.split()) for each in comments]
    lines = [each for each in dict.fromkeys(lines) if each not in file.text]
    source = "" if file.format == "toml" else file.source((table,))
    if not lines or "\n" not in source:  # nowhere to put them
        return file
    newline = "\r\n" if "\r\n" in source else "\n"
    body, closing = source[:-1].rstrip(), source[len(source[:-1].rstrip()) :]
    first = source.split("\n")[1]
    indent = first[: len(first) - len(first.lstrip())]
    added = "".join(f"{newline}{indent}// {each}" for each in lines)
    return file.edited([PutSource((table,), body + added + closing)])
