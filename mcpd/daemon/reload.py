"""Reading the configuration again: what changed is applied, a broken file changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from mcpd import tasks
from mcpd.config.diff import Change, carried_over, diff
from mcpd.config.load import Loaded, candidates, load
from mcpd.config.watch import FileWatch
from mcpd.daemon.registry import Registry
from mcpd.observe.journal import Journal
from mcpd.observe.pipeline import Logger


class Reloader:
    """Keeps what is applied in step with the files, one reading at a time."""

    def __init__(
        self,
        explicit: str | None,
        since: str,
        *,
        registry: Registry,
        applied: Callable[[Change], None],
        log: Logger,
        journal: Journal,
    ) -> None:
        """``since`` tells people how old the daemon's environment is.

        ``applied`` is called after the registry has taken a new configuration over.
        """
        self._explicit = explicit
        self._since = since
        self._registry = registry
        self._applied = applied
        self._log = log
        self._journal = journal
        self._turn = asyncio.Lock()  # two readings at a time could be applied the wrong way round
        self._watch: FileWatch | None = None
        self._is_closed = False

    def read(self) -> Loaded:
        """Read the files. Blocks; never raises for what they hold."""
        return load(self._explicit, os.environ, since=self._since)

    async def reload(self, reason: str) -> dict[str, Any]:
        """Read the files and apply what is different; return the result of ``mcpd/reload``."""
        async with self._turn:
            new = await asyncio.to_thread(self.read)
            old = self._registry.loaded
            change = Change(unchanged=tuple(old.entries)) if new.broken else diff(old, new)
            merged = carried_over(old, new)
            errors = [str(problem) for problem in merged.errors]
            if merged != old:
                self._registry.apply(merged)
                self._tell(change, errors, reason)
            if is_change(change):
                self._applied(change)
            self.watch()
            return {
                "added": list(change.added),
                "removed": list(change.removed),
                "changed": [*change.changed, *change.filters_only],
                "unchanged": list(change.unchanged),
                "errors": errors,
                "applied": not new.broken,
            }

    def watch(self) -> None:
        """Watch the files, if the configuration wants that.

        To be called before the first reading, too: then no change is missed in between. Files
        that the configuration names are known after it only, so they are read again.
        """
        wanted = self._registry.daemon.watch and not self._is_closed
        env_files = self._registry.loaded.env_files
        watch = self._watch
        if watch is not None and (not wanted or watch.private != env_files):
            watch.close()
            self._watch = None
        if wanted and self._watch is None:
            files = candidates(self._explicit, os.environ)
            self._watch = FileWatch(files, self._on_change, private=env_files)
            if env_files - (frozenset() if watch is None else watch.private):
                self._on_change()

    def close(self) -> None:
        """Notice no change any more."""
        self._is_closed = True
        self.watch()

    def _on_change(self) -> None:
        tasks.spawn(self.reload("a file changed"), name="reload")

    def _tell(self, change: Change, errors: list[str], reason: str) -> None:
        told = {
            "added": list(change.added),
            "removed": list(change.removed),
            "changed": [*change.changed, *change.filters_only],
        }
        named = {kind: ", ".join(names) or None for kind, names in told.items()}
        self._log.info("config.reloaded", reason=reason, **named, errors=len(errors))
        for error in errors:
            self._log.error("config.error", problem=error)
        self._journal.add("config.reloaded", **told, errors=errors)


def is_change(change: Change) -> bool:
    """Tell whether anything is to be done."""
    return bool(
        change.added
        or change.removed
        or change.changed
        or change.filters_only
        or change.reordered
        or change.daemon
        or change.broken
    )
