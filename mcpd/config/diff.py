"""Two configurations to what is to be started, stopped, replaced or left alone."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpd.config.entry import ServerEntry
from mcpd.config.load import Loaded


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is different, as names of servers; each name is in one of the first five.

    ``filters_only`` have other ``tools`` and nothing else, so their process stays. ``broken``
    are those whose new entry is bad: one that had a good entry keeps that, so it is among
    ``unchanged``; one that is new is among ``added``.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    filters_only: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    reordered: bool = False
    """The servers that stay have another order, which names in the aggregate may follow."""

    daemon: bool = False
    """The daemon's own table is different."""


def diff(old: Loaded, new: Loaded) -> Change:
    """Compare what is applied with what is to be.

    ``old`` is what ``carried_over`` made of the last one, so that a bad entry that is good
    again as it was counts as unchanged. What counts is what the values come to: not their
    spelling, nor comments, order or the file they stand in.
    """
    lists: dict[str, list[str]] = {
        "changed": [],
        "filters_only": [],
        "unchanged": [],
    }
    for name, entry in new.entries.items():
        if name in old.entries:
            lists[_verdict(old.entries[name], entry)].append(name)
    staying = [name for name in old.entries if name in new.entries]
    return Change(
        added=tuple(name for name in new.entries if name not in old.entries),
        removed=tuple(name for name in old.entries if name not in new.entries),
        broken=tuple(name for name, entry in new.entries.items() if entry.error is not None),
        reordered=staying != [name for name in new.entries if name in old.entries],
        daemon=old.daemon != new.daemon,
        **{key: tuple(names) for key, names in lists.items()},
    )


def carried_over(old: Loaded, new: Loaded) -> Loaded:
    """Return what is applied from now on: ``new``, with good old entries for bad new ones.

    Such an entry keeps its values and carries the new one's ``error`` and ``problems``. When
    a file of ``new`` is broken everything is as it was, with the new problems.
    """
    if new.broken:
        return msgspec.structs.replace(old, problems=new.problems, broken=True)
    entries = {
        name: _with_error(old.entries[name], entry)
        if entry.error is not None and name in old.entries and is_usable(old.entries[name])
        else entry
        for name, entry in new.entries.items()
    }
    return msgspec.structs.replace(new, entries=entries)


def is_usable(entry: ServerEntry) -> bool:
    """Say whether an entry tells how to start its server, or that it is off."""
    return entry.launch is not None or (entry.config is not None and not entry.enabled)


def _with_error(good: ServerEntry, bad: ServerEntry) -> ServerEntry:
    return msgspec.structs.replace(good, error=bad.error, problems=bad.problems)


def _verdict(old: ServerEntry, new: ServerEntry) -> str:
    if new.error is not None:
        return "unchanged"
    if _essence(old) != _essence(new):
        return "changed"
    if old.config is not None and new.config is not None and old.config.tools != new.config.tools:
        return "filters_only"
    return "unchanged"


def _essence(entry: ServerEntry) -> dict[str, Any]:
    """Return what makes a process of this entry differ from one of another."""
    values: dict[str, Any] = msgspec.structs.asdict(entry.config) if entry.config else {}
    values.pop("tools", None)
    if entry.launch is not None:  # what the texts come to, instead of how they are written
        values |= msgspec.structs.asdict(entry.launch)
        values["names_cwd"] = entry.config is not None and entry.config.cwd is not None
    return {**values, "enabled": entry.enabled}
