"""Puts back what was in a client's file before it was adopted."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence, Set
from typing import Any

import msgspec

from mcpd.config.files import trust
from mcpd.editing import replace
from mcpd.editing.edits import Drop, Edit, PutSource
from mcpd.editing.file import File, Format, parse
from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath
from mcpd.onboarding import originals
from mcpd.onboarding.adopting import places, value
from mcpd.onboarding.originals import Change, Changed, Original


class Released(msgspec.Struct, kw_only=True):
    """What became of one file."""

    done: list[Changed] = []
    left: list[tuple[Changed, str]] = []
    """Entries that stay as they are, and why."""


Open = list[tuple[Original, tuple[Changed, ...]]]
"""The changes of one file that are in force, with their entries."""


def in_force(kept: Sequence[Original]) -> Open:
    """Return the changes of ``adopt`` with the entries that are not undone, the oldest first.

    An entry that a release has put back, and that is ours once more, is among them: its client has
    written what it had read before, or somebody has restored the file.
    """
    settled = {each for original in kept for each in original.change.settled}
    settled -= _written_again(kept, settled)
    rest = []
    for original in kept:
        entries = tuple(
            each for each in original.change.entries if (original.id, each.name) not in settled
        )
        if entries:  # a release has none
            rest.append((original, entries))
    return rest


def by_path(opened: Open) -> dict[str, Open]:
    """Return changes by the file that they changed."""
    found: dict[str, Open] = {}
    for original, entries in opened:
        found.setdefault(original.change.path, []).append((original, entries))
    return found


def adopted(opened: Open) -> list[tuple[Original, Changed]]:
    """Return the entries that run the bridge, each with the change that made it do so first.

    Those of a file that cannot be read now are among them.
    """
    rows: list[tuple[Original, Changed]] = []
    for path, changes in by_path(opened).items():
        try:
            data, is_read = _data(path, changes[0][0].change.format), True
        except ConfigError:
            data, is_read = None, False
        seen: set[tuple[Any, ...]] = set()
        for original, entries in changes:
            for each in entries:
                ident = (*each.path[:-1], each.name)
                if ident not in seen and (not is_read or _is_ours(data, original.change, each)):
                    seen.add(ident)
                    rows.append((original, each))
    return rows


def release(path: str, opened: Open, *, is_dry: bool = False) -> Released:
    """Undo the changes of a file; return what was done.

    A file that nobody changed since gets its old bytes; otherwise each entry of ours that is
    unchanged gets its old text. Raises ``ConfigError`` where the file cannot be read, edited or
    written.
    """
    result = Released()
    when = originals.now()
    last: tuple[Change, bytes] | None = None

    def edit(raw: bytes | None) -> bytes | None:
        nonlocal last
        result.done, result.left = [], []
        settled: list[tuple[str, str]] = []
        if raw is None:
            result.left = [(each, "the file is gone") for _, entries in opened for each in entries]
            return None
        content, rest = _whole(raw, opened, result, settled)
        if rest:
            content = _one_by_one(content, rest, result, settled)
        if content == raw or is_dry:
            return None
        change = opened[0][0].change
        made = Change(
            what="release",
            client=change.client,
            path=path,
            format=change.format,
            when=when,
            after=originals.digest(content),
        )
        originals.keep(made, raw)
        last = msgspec.structs.replace(made, settled=tuple(settled)), raw
        return content

    if replace.change(path, edit) and last is not None:
        # Settled now, and not by a release that failed. Where that cannot be noted, the entries are
        # seen to be what they were.
        with contextlib.suppress(ConfigError):
            originals.keep(*last)
    return result


def _data(path: str, format: Format) -> Any:
    """Return what a file says now; ``None`` if it is gone. Raises ``ConfigError``."""
    raw = trust.read(path, limit=replace.SIZE_LIMIT)
    return None if raw is None else parse(raw, format).data


def _written_again(kept: Sequence[Original], settled: Set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of ``settled`` that their file says again; of each entry, the newest."""
    found: set[tuple[str, str]] = set()
    files: dict[str, Any] = {}
    taken: set[tuple[Any, ...]] = set()
    for original in reversed(kept):
        change = original.change
        for each in change.entries:
            ident, key = (original.id, each.name), (change.path, *each.path[:-1], each.name)
            if ident in settled and key not in taken:
                if change.path not in files:
                    files[change.path] = None
                    with contextlib.suppress(ConfigError):
                        files[change.path] = _data(change.path, change.format)
                if not _is_as_left(files[change.path], change, each):
                    continue
                found.add(ident)
            taken.add(key)
    return found


def _is_as_left(data: Any, change: Change, each: Changed) -> bool:
    """Return whether a file says of an entry what adopt made of it."""
    where = places(data, each.path, each.name)
    if each.ours is not None or change.added is None:
        return len(where) == 1 and value(data, where[0]) == each.ours
    return not where and _place_of_all(data, change.added) is not None


def _whole(
    raw: bytes, opened: Open, result: Released, settled: list[tuple[str, str]]
) -> tuple[bytes, Open]:
    """Undo those changes after which nobody changed the file, the last one first."""
    rest = list(opened)
    found = True
    while found:
        found = False
        for one in reversed(rest):
            original, entries = one
            is_complete = len(entries) == len(original.change.entries)
            if is_complete and original.change.after == originals.digest(raw):
                raw = original.before
                result.done += entries
                settled += [(original.id, each.name) for each in entries]
                rest.remove(one)
                found = True
                break
    return raw, rest


def _one_by_one(
    raw: bytes, opened: Open, result: Released, settled: list[tuple[str, str]]
) -> bytes:
    file = parse(raw, opened[0][0].change.format)
    removed: set[tuple[Any, ...]] = set()
    for original, entries in reversed(opened):
        change = original.change
        all_of_them = change.added
        if all_of_them is not None:
            place = _place_of_all(file.data, all_of_them)
            if place is not None:
                file = file.edited([Drop(place)])
                removed.add(all_of_them[0])
        for each in entries:
            where = places(file.data, each.path, each.name)
            now = value(file.data, where[0]) if len(where) == 1 else None
            edit: Edit | None = None
            if each.ours is None and all_of_them is not None:
                if all_of_them[0] not in removed:
                    result.left.append((each, "the entry for all servers was changed since"))
                    continue
                if not where:
                    edit = PutSource(_end(file, each), each.source)
            elif now == each.ours:
                edit = PutSource(where[0], each.source)
            elif where and now != each.content:
                result.left.append((each, "it was changed since it was adopted"))
                continue
            if edit is not None:
                file = file.edited([edit])
                result.done.append(each)
            settled.append((original.id, each.name))
    return file.encode()


def _place_of_all(data: Any, added: tuple[tuple[Any, ...], Any]) -> KeyPath | None:
    """Return where the entry for all servers stands; ``None`` unless it is as we left it."""
    path, content = added
    name = path[-1] if isinstance(path[-1], str) else content.get("name")
    return next((at for at in places(data, path, name) if value(data, at) == content), None)


def _end(file: File, each: Changed) -> tuple[Any, ...]:
    key = tuple(each.path[:-1])
    table = value(file.data, key)
    return (*key, len(table)) if isinstance(table, list) else (*key, each.name)


def _is_ours(data: Any, change: Change, each: Changed) -> bool:
    from mcpd.onboarding.clients.launch import bridge

    if each.ours is None and change.added is not None:
        return value(data, change.added[0]) is not None and not places(data, each.path, each.name)
    where = places(data, each.path, each.name)
    content = value(data, where[0]) if where else None
    return isinstance(content, dict) and bridge(content) is not None
