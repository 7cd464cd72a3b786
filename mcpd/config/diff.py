"""Compares two configurations: which servers to start, stop, replace or leave running."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpd.config.entry import ServerEntry
from mcpd.config.load import Loaded


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The differences, as names of servers; each name is in exactly one of the first five.

    In ``filters_only`` nothing but ``tools`` and what may be called differs, so the process keeps
    running. ``broken`` are
    servers whose new entry is invalid: one with a valid old entry keeps that and is in
    ``unchanged``; a new one is in ``added``.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    filters_only: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    reordered: bool = False
    """Whether the remaining servers have a new order, which can change names in the aggregate."""

    daemon: bool = False
    """Whether the ``[daemon]`` table differs."""

    http: bool = False
    """Whether the ``[http]`` table differs."""

    policy: bool = False
    """Whether ``[trust]`` or ``[profiles]`` differ."""


def diff(old: Loaded, new: Loaded) -> Change:
    """Compare the active configuration with a new one.

    ``old`` is the last result of ``carried_over``, so an entry that was invalid and is valid again
    with the same values is unchanged. Only resolved values are compared: not their spelling,
    comments, order or file.
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
        http=old.http != new.http,
        policy=(old.trust, old.profiles) != (new.trust, new.profiles),
        **{key: tuple(names) for key, names in lists.items()},
    )


def carried_over(old: Loaded, new: Loaded) -> Loaded:
    """Return the configuration to apply: ``new``, with valid old entries for invalid new ones.

    Such an entry keeps its old values and gets the new one's ``error`` and ``problems``; so does
    one that can be started, until the login shell was asked for variables of the new one. If a file
    of ``new`` is broken, the result is ``old`` with the new problems.
    """
    if new.broken:
        return msgspec.structs.replace(old, problems=new.problems, broken=True)
    entries = {
        name: _with_error(old.entries[name], entry)
        if name in old.entries and _keeps(old.entries[name], entry)
        else entry
        for name, entry in new.entries.items()
    }
    return msgspec.structs.replace(new, entries=entries)


def _keeps(old: ServerEntry, new: ServerEntry) -> bool:
    """Tell whether an old entry counts in place of the new one."""
    if new.awaits:
        return old.is_resolved and old.enabled
    return new.error is not None and is_usable(old)


def is_usable(entry: ServerEntry) -> bool:
    """Return whether an entry can be started, or is valid and disabled."""
    return entry.is_resolved or (entry.config is not None and not entry.enabled)


def _with_error(good: ServerEntry, bad: ServerEntry) -> ServerEntry:
    return msgspec.structs.replace(good, error=bad.error, problems=bad.problems)


def _verdict(old: ServerEntry, new: ServerEntry) -> str:
    if new.error is not None or (new.awaits and _keeps(old, new)):
        return "unchanged"
    if _essence(old) != _essence(new):
        return "changed"
    if old.config is not None and new.config is not None:
        of_old, of_new = ((each.tools, each.policy) for each in (old.config, new.config))
        return "unchanged" if of_old == of_new else "filters_only"
    return "unchanged"


def _essence(entry: ServerEntry) -> dict[str, Any]:
    """Return the values of an entry that a running process depends on."""
    values: dict[str, Any] = msgspec.structs.asdict(entry.config) if entry.config else {}
    values.pop("tools", None)
    values.pop("policy", None)
    if entry.launch is not None:  # the resolved texts instead of those in the file
        values |= msgspec.structs.asdict(entry.launch)
        values["names_cwd"] = entry.config is not None and entry.config.cwd is not None
    if entry.remote is not None:
        values["remote"] = entry.remote
    return {**values, "enabled": entry.enabled, "awaits": entry.awaits}
