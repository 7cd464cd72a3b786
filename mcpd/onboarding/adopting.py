"""Rewrites a client's entries so that each runs mcpd's bridge."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mcpd.editing import replace
from mcpd.editing.edits import Drop, Edit, Put
from mcpd.editing.file import File, parse
from mcpd.formats.document import KeyPath
from mcpd.onboarding import originals
from mcpd.onboarding.clients.client import Client
from mcpd.onboarding.clients.entries import Found
from mcpd.onboarding.clients.launch import COMMANDS, LAUNCH, TYPES
from mcpd.onboarding.clients.launch import bridge as bridge_of
from mcpd.onboarding.clients.search import ClientFile
from mcpd.onboarding.originals import Change, Changed

AGGREGATE: Final = "mcpd"
"""The name of the one entry by which a client reaches all servers."""

_OF_PROCESS: Final = ("stdio", "local")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a client that is to run the bridge."""

    file: ClientFile
    found: Found
    server: str | None
    """``None`` for an entry that runs a bridge which is gone: only its program changes."""


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """How a client starts the bridge."""

    program: str
    """Absolute path of ``mcpctl``."""

    socket: str | None = None
    """The daemon's socket, where it is not at its usual place."""

    def words(self, server: str | None) -> list[str]:
        """Return the command line for a server, or for all as one."""
        place = [] if self.socket is None else ["--socket", self.socket]
        return [self.program, *place, "connect", *([] if server is None else [server])]


class Adopted(msgspec.Struct, kw_only=True):
    """What became of one file."""

    done: list[Wanted] = []
    changed_since: list[Wanted] = []
    """Entries that are no longer what they were when they were read."""

    original: str | None = None
    """Where the file is kept as it was."""


def edits(content: Mapping[str, Any], client: Client, words: Sequence[str]) -> list[Edit]:
    """Return the edits, relative to an entry, that make it run ``words``.

    Everything that does not say how the server is started or reached stays.
    """
    inner = content.get("transport")
    base: KeyPath = ("transport",) if isinstance(inner, dict) else ()
    launch = inner if isinstance(inner, dict) else content
    command = next((key for key in COMMANDS if key in launch), client.command)
    is_list = client.list_command or isinstance(launch.get(command), list)
    made: list[Edit] = [Put((*base, command), list(words) if is_list else words[0])]
    if not is_list:
        made.append(Put((*base, "args"), list(words[1:])))
    kept = {command} if is_list else {command, "args"}
    made += [Drop((*base, key)) for key in LAUNCH if key in launch and key not in kept]
    kinds = [key for key in TYPES if isinstance(launch.get(key), str)]
    for key in kinds:
        if launch[key] not in _OF_PROCESS:
            made.append(Put((*base, key), client.stdio) if client.stdio else Drop((*base, key)))
    if not kinds and client.needs_type and client.stdio:
        made.append(Put((*base, "type"), client.stdio))
    return made


def repaired(content: Mapping[str, Any], program: str) -> list[Edit]:
    """Return the edits that give an entry of ours another path of ``mcpctl``."""
    inner = content.get("transport")
    base: KeyPath = ("transport",) if isinstance(inner, dict) else ()
    launch = inner if isinstance(inner, dict) else content
    for key in COMMANDS:
        if isinstance(launch.get(key), list):
            return [Put((*base, key), [program, *launch[key][1:]])]
        if launch.get(key):
            return [Put((*base, key), program)]
    return []


def for_all(client: Client, words: Sequence[str], name: str) -> dict[str, Any]:
    """Return a new entry in a client's spelling."""
    launch: dict[str, Any] = {client.command: words[0], "args": list(words[1:])}
    if client.list_command:
        launch = {client.command: list(words)}
    if client.stdio and (client.needs_type or client.nested or client.list_command):
        launch = {"type": client.stdio, **launch}
    if client.nested:
        launch = {client.nested: launch}
    return {**({"name": name} if client.has_name else {}), **launch, **client.wants}


def applied(content: Any, made: Sequence[Edit]) -> Any:
    """Return what edits make of an entry."""
    from mcpd.editing import edits as changes

    for edit in made:
        if isinstance(edit, Put):
            content = changes.put(content, edit.path, edit.value)
        else:
            content = changes.drop(content, edit.path)
    return content


def changes_of(wanted: Wanted, bridge: Bridge) -> list[Edit]:
    """Return the edits of one entry, relative to it."""
    if wanted.server is None:
        return repaired(wanted.found.content, bridge.program)
    return edits(wanted.found.content, wanted.file.client, bridge.words(wanted.server))


def adopt(
    path: str,
    wanted: Sequence[Wanted],
    bridge: Bridge,
    *,
    is_aggregate: bool = False,
    keep: Callable[[Change, bytes], str] = originals.keep,
) -> Adopted:
    """Rewrite entries in a file; return what was done.

    An entry that somebody has changed since it was read stays. Raises ``ConfigError`` where the
    file cannot be read, edited or written.
    """
    first = wanted[0].file
    when = originals.now()
    result = Adopted()

    def edit(raw: bytes | None) -> bytes | None:
        result.done, result.changed_since = [], list(wanted)
        if raw is None:
            return None
        file = parse(raw, first.format)
        found = [(each, place(file, each.found)) for each in wanted]
        result.changed_since = [each for each, where in found if where is None]
        todo = [_Todo(each, where) for each, where in found if where is not None]
        if not todo:
            return None
        made, entries = _edits_of(file, todo, bridge, is_aggregate=is_aggregate)
        removed = [entry for entry in entries if entry.ours is None]
        added = _all_of(file, first, bridge, len(removed)) if removed else None
        if added is not None:
            made = [*reversed(made), Put(*added)]  # the indexes of a list stay right
        after = file.edited(made).encode()
        if after == raw:
            return None
        result.done = [each.wanted for each in todo]
        result.original = keep(
            Change(
                what="adopt",
                client=first.client.id,
                path=path,
                format=first.format,
                when=when,
                after=originals.digest(after),
                entries=tuple(entries),
                added=added,
            ),
            raw,
        )
        return after

    replace.change(path, edit)
    return result


class _Todo(NamedTuple):
    """An entry to rewrite, and where it stands now."""

    wanted: Wanted
    where: KeyPath


def _edits_of(
    file: File, todo: Sequence[_Todo], bridge: Bridge, *, is_aggregate: bool
) -> tuple[list[Edit], list[Changed]]:
    """Return the edits of a file, and what is remembered of each entry to put it back."""
    made: list[Edit] = []
    entries: list[Changed] = []
    for wanted, where in todo:
        own = changes_of(wanted, bridge)
        is_removed = is_aggregate and wanted.server is not None
        entries.append(
            Changed(
                name=wanted.found.name,
                path=where,
                server=wanted.server or "",
                source=file.source(where),
                content=wanted.found.content,
                ours=None if is_removed else applied(wanted.found.content, own),
            )
        )
        if is_removed:
            made.append(Drop(where))
        else:
            made += [msgspec.structs.replace(each, path=(*where, *each.path)) for each in own]
    return made, entries


def _all_of(file: File, first: ClientFile, bridge: Bridge, removed: int) -> tuple[KeyPath, Any]:
    """Return where the entry for all servers goes, and what it says."""
    table = value(file.data, first.key)
    name = AGGREGATE
    if isinstance(table, dict) and isinstance(table.get(name), dict) and not bridge_of(table[name]):
        name = f"{AGGREGATE}-all"  # that one is somebody else's
    entry = for_all(first.client, bridge.words(None), name)
    if isinstance(table, list):
        return (*first.key, len(table) - removed), entry
    return (*first.key, name), entry


def place(file: File, found: Found) -> KeyPath | None:
    """Return where an entry stands now; ``None`` if it is gone or says something else."""
    for where in places(file.data, found.path, found.name):
        if value(file.data, where) == found.content:
            return where
    return None


def places(data: Any, path: Sequence[Any], name: str) -> list[KeyPath]:
    """Return where entries with a name stand: in a list, anywhere in it."""
    key = tuple(path[:-1])
    table = value(data, key)
    if isinstance(table, list):
        return [
            (*key, n)
            for n, each in enumerate(table)
            if isinstance(each, dict) and each.get("name") == name
        ]
    return [(*key, name)] if isinstance(table, dict) and name in table else []


def value(data: Any, path: Sequence[Any]) -> Any:
    """Return the value at a path, ``None`` if there is none."""
    for part in path:
        if isinstance(data, dict) and isinstance(part, str):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def is_gone(program: str) -> bool:
    """Return whether the ``mcpctl`` that an entry runs is not there."""
    return os.path.isabs(program) and not os.access(program, os.X_OK)
