"""Which servers of clients mcpd gets, and under which names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from mcpd.onboarding import keeping
from mcpd.onboarding.clients.entries import Found
from mcpd.onboarding.clients.launch import identity
from mcpd.onboarding.clients.reading import placed
from mcpd.onboarding.clients.search import ClientFile
from mcpd.onboarding.own import Own


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A client's server, and the equal server in mcpd's configuration."""

    file: ClientFile
    found: Found
    server: str
    """Its name in mcpd."""

    is_new: bool
    """Whether mcpd gets it from here."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What stays as it is, and why."""

    client: str | None
    path: str | None
    name: str | None
    why: str
    is_broken: bool = False
    """Whether it is a file that cannot be read."""


class Plan(msgspec.Struct, kw_only=True):
    """What an import does."""

    own: Own
    moves: list[Move] = []
    left: list[Left] = []
    warnings: list[str] = []
    bridges: list[tuple[ClientFile, Found]] = []
    """Entries that run mcpd's bridge already."""

    new: dict[str, dict[str, Any]] = {}
    """The entries that mcpd gets, by their names."""

    secrets: dict[str, str] = {}
    """The secrets that are set for them, by their names."""


def plan(
    files: Iterable[ClientFile],
    own: Own,
    only: Collection[str] = (),
    secrets: Mapping[str, str] = {},
) -> Plan:
    """Plan the import of the servers in ``files``, or of those with a name in ``only``.

    ``secrets`` are those that entries of mcpd name: a client has them in the clear.
    """
    made = Plan(own=own)
    known = {
        identity(keeping.filled(entry, secrets)): name
        for name, entry in reversed(own.entries.items())
        if isinstance(entry, dict)
    }
    seen: set[str] = set()
    for file in files:
        if file.error is not None:
            made.left.append(
                Left(
                    client=file.client.id,
                    path=file.path,
                    name=None,
                    why=placed(file.path, file.error),
                    is_broken=True,
                )
            )
        for found in file.servers:
            if not only or found.name in only:
                seen.add(found.name)
                _add(made, file, found, known)
    for name in only:
        if name not in seen:
            made.left.append(
                Left(client=None, path=None, name=name, why="no client has a server of this name")
            )
    return made


def _add(made: Plan, file: ClientFile, found: Found, known: dict[tuple[Any, ...], str]) -> None:
    who = f"{found.name} of {file.client.title}"
    made.warnings += [f"{who}: {note}" for note in found.notes]
    if found.connects is not None:
        made.bridges.append((file, found))
        return
    if found.is_shadowed:
        made.warnings.append(f"{who}: {found.why_not}")
        return
    if found.why_not is not None:
        made.left.append(
            Left(client=file.client.id, path=file.path, name=found.name, why=found.why_not)
        )
        return
    key = identity(found.entry)
    server = known.get(key)
    is_new = server is None
    if server is None:
        server = _free(found.name, file.client.id, {*made.own.entries, *made.new})
        known[key] = server
        made.new[server] = dict(found.entry)
    elif server in made.new:
        _join(made, server, found.entry, who)
    made.moves.append(Move(file=file, found=found, server=server, is_new=is_new))


def _join(made: Plan, server: str, entry: dict[str, Any], who: str) -> None:
    """Add what an equal server of another client has to a new one.

    It is on if it is on in one of them, and has the tools that one of them has.
    """
    new = made.new[server]
    if entry.get("enabled") is not False:
        new.pop("enabled", None)
    mine, theirs = new.pop("tools", {}), entry.get("tools", {})
    tools: dict[str, list[str]] = {}
    if "allow" in mine and "allow" in theirs:
        tools["allow"] = list(dict.fromkeys([*mine["allow"], *theirs["allow"]]))
    if both := [name for name in mine.get("deny", ()) if name in theirs.get("deny", ())]:
        tools["deny"] = both
    if tools:
        new["tools"] = tools
    if mine != theirs:
        made.warnings.append(f"{who}: mcpd shows the tools that one of the clients of {server} has")
    for key in ("call_timeout", "startup_timeout"):
        if key in new and entry.get(key) != new[key]:
            made.warnings.append(f"{who}: the {key} of {server} comes from another client")
        elif key in entry and key not in new:
            made.warnings.append(
                f"{who}: its {key} is left out: {server} comes from another client, and has none"
            )


def _free(name: str, client: str, taken: Collection[str]) -> str:
    """Return a name that no other server has: the client's name is added, then a number."""
    if name not in taken:
        return name
    longer = f"{name}-{client}"
    number = 2
    found = longer
    while found in taken:
        found = f"{longer}-{number}"
        number += 1
    return found
