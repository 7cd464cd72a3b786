"""Reading the configuration again: changes are applied, a broken file changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable

from mcpd import tasks
from mcpd.api.results import Reloaded
from mcpd.config.diff import Change, carried_over, diff
from mcpd.config.files.candidates import candidates
from mcpd.config.files.watch import FileWatch
from mcpd.config.load import Loaded, load
from mcpd.config.schema import DaemonConfig
from mcpd.config.texts.resolving import Login
from mcpd.core.interface.events import EntriesChanged
from mcpd.daemon.dispatcher import Dispatcher
from mcpd.daemon.servers.control import ServerControl
from mcpd.daemon.servers.memory_watch import MemoryWatch
from mcpd.daemon.servers.policy import policy_of
from mcpd.daemon.servers.projects import Projects
from mcpd.daemon.servers.registry import Registry
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.logfiles.quota import LogQuota
from mcpd.observe.journal import Journal
from mcpd.observe.pipeline import Logger, Pipeline
from mcpd.upstreams.supervisor import Supervisor

LEAST_STARTS = 4
"""Servers that may start at a time, at least, unless the configuration says otherwise."""


class Reloader:
    """Reads the files again when they change or on request, once at a time."""

    def __init__(
        self,
        explicit: str | None,
        since: str,
        *,
        registry: Registry,
        applied: Callable[[Change], None],
        login: Callable[[], Login | None],
        log: Logger,
        journal: Journal,
    ) -> None:
        """``since`` is shown in errors: the time the daemon's environment is from.

        ``login`` returns what the login shell has, ``None`` until it was asked. ``applied`` is
        called after the registry has taken over a new configuration.
        """
        self._explicit = explicit
        self._since = since
        self._registry = registry
        self._applied = applied
        self._login = login
        self._log = log
        self._journal = journal
        self._turn = asyncio.Lock()  # two readings at a time could be applied the wrong way round
        self._watch: FileWatch | None = None
        self._is_closed = False
        self.ask: Callable[[], None]
        """Asks the login shell for the variables that entries await."""
        self.settle: Callable[[], Awaitable[list[str]]] = _nothing
        """Applies what takes time, and returns what is wrong with it."""
        self.look_at_projects: Callable[[], None] = lambda: None
        """Reads the files of workspaces again."""

    def read(self) -> Loaded:
        """Read the files. Blocks; never raises for what they hold."""
        return load(self._explicit, os.environ, since=self._since, login=self._login())

    async def reload(self, reason: str) -> Reloaded:
        """Read the files and apply what is different; return the result of ``mcpd/reload``."""
        async with self._turn:
            new = await asyncio.to_thread(self.read)
            old = self._registry.loaded
            change = Change(unchanged=tuple(old.entries)) if new.broken else diff(old, new)
            merged = carried_over(old, new)
            errors = [str(problem) for problem in merged.errors]
            has_lost_pins = self._registry.has_lost_pins()
            if merged != old or has_lost_pins:
                self._registry.apply(merged)
            if merged != old:
                self._report(change, errors, reason)
            if is_change(change) or has_lost_pins:
                self._applied(change)
            self.ask_for_variables(new)
            self.look_at_projects()
            errors += await self.settle()
            self.watch()
            return {
                "added": list(change.added),
                "removed": list(change.removed),
                "changed": [*change.changed, *change.filters_only],
                "unchanged": list(change.unchanged),
                "errors": errors,
                "applied": not new.broken,
            }

    def ask_for_variables(self, loaded: Loaded) -> None:
        """Ask the login shell if an entry awaits variables."""
        if any(entry.awaits for entry in loaded.entries.values()):
            self.ask()

    def watch(self) -> None:
        """Watch the files, if the configuration says so.

        Call it before the first ``read`` too, so that no change in between is missed. Files that
        the configuration names are known only after reading it, and are read again.
        """
        wanted = self._registry.daemon.watch and not self._is_closed
        named_files = self._registry.loaded.named_files
        watch = self._watch
        if watch is not None and (not wanted or watch.private != named_files):
            watch.close()
            self._watch = None
        if wanted and self._watch is None:
            files = candidates(self._explicit, os.environ)
            self._watch = FileWatch(files, self._on_change, private=named_files)
            if named_files - (frozenset() if watch is None else watch.private):
                self._on_change()

    def close(self) -> None:
        """Watch the files no longer."""
        self._is_closed = True
        self.watch()

    def _on_change(self) -> None:
        tasks.spawn(self.reload("a file changed"), name="reload")

    def _report(self, change: Change, errors: list[str], reason: str) -> None:
        names = {
            "added": list(change.added),
            "removed": list(change.removed),
            "changed": [*change.changed, *change.filters_only],
        }
        named = {kind: ", ".join(each) or None for kind, each in names.items()}
        self._log.info("config.reloaded", reason=reason, **named, errors=len(errors))
        for error in errors:
            self._log.error("config.error", problem=error)
        self._journal.add("config.reloaded", **names, errors=errors)


async def _nothing() -> list[str]:
    return []


def is_change(change: Change) -> bool:
    """Return whether a change has to be applied."""
    return bool(
        change.added
        or change.removed
        or change.changed
        or change.filters_only
        or change.reordered
        or change.daemon
        or change.http
        or change.policy
        or change.broken
    )


class ConfigApplier:
    """Makes the parts of the daemon follow the configuration that the registry holds."""

    def __init__(
        self,
        *,
        log_level: str | None,
        registry: Registry,
        pipeline: Pipeline,
        lines: DaemonLog,
        log_quota: LogQuota,
        dispatcher: Dispatcher,
        supervisor: Supervisor,
        control: ServerControl,
        memory_watch: MemoryWatch,
        apply_listeners: Callable[[DaemonConfig], None],
        projects: Projects,
    ) -> None:
        """``log_level`` is that of the command line, which counts more than the configuration."""
        self._log_level = log_level
        self._registry = registry
        self._pipeline = pipeline
        self._lines = lines
        self._log_quota = log_quota
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._control = control
        self._memory_watch = memory_watch
        self._apply_listeners = apply_listeners
        self._projects = projects

    def apply(self, change: Change) -> None:
        """Apply a change of the configuration."""
        for name in (*change.changed, *change.removed):
            self._control.release(name)
        self.apply_entries()
        if change.policy or change.daemon:
            self._projects.configured()
        self.apply_log_limits()
        self.forget_logs()
        at_once = starts_at_once(self._registry.daemon.max_concurrent_starts)
        self._supervisor.apply_settings(starts_at_once=at_once)
        self.apply_listeners()
        self._memory_watch.wake()
        self._control.clear_failed(change.changed)
        self.start_eager((*change.added, *change.changed))

    def apply_entries(self) -> None:
        """Let the mux know which servers there are."""
        loaded = self._registry.loaded
        sources = f"read: {', '.join(loaded.found)}"
        if not loaded.found:
            sources = f"there is none of {', '.join(loaded.files)}"
        self._dispatcher.dispatch(
            EntriesChanged(self._registry.entries(), policy_of(loaded), sources)
        )

    def apply_log_limits(self) -> None:
        """Apply the level and the sizes of logs."""
        settings = self._registry.daemon
        self._pipeline.level_name = self._log_level or settings.log_level
        self._pipeline.form.name = settings.log_format
        self._lines.limit(max_bytes=settings.log_max_bytes, backups=settings.log_backups)
        self._log_quota.max_bytes = settings.logs_max_bytes
        self._log_quota.check_soon()

    def apply_listeners(self) -> None:
        """Open and close listeners."""
        self._apply_listeners(self._registry.daemon)

    def forget_logs(self) -> None:
        """Close the logs of servers that were removed and have ended."""
        self._registry.forget_logs({slot.server for slot in self._supervisor.slots()})

    def start_eager(self, names: Iterable[str] | None = None) -> None:
        """Start those servers among ``names``, or among all, whose entries say ``eager``."""
        for name in names if names is not None else [server.name for server in self._registry]:
            server = self._registry.get(name)
            config = None if server is None else server.configured.config
            if config is not None and config.start == "eager":
                self._control.start_eager(name)


def starts_at_once(configured: int) -> int:
    """Return how many servers may start at a time; ``configured`` is 0 for the default."""
    return configured or max(LEAST_STARTS, os.cpu_count() or 1)
