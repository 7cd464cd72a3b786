"""Spawns the processes of servers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import Final

from mcpd import paths
from mcpd.config.schema import DaemonConfig
from mcpd.core import facts
from mcpd.core.facts import Fact
from mcpd.core.wire.memory import Memory
from mcpd.errors import SpawnFailed
from mcpd.logfiles.serverlog import ServerLog
from mcpd.supervise import spawn, tree
from mcpd.supervise.loginenv.loginshell import LoginShell
from mcpd.supervise.proctable.procfs import ProcId
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.host import NotStarted, Reports
from mcpd.upstreams.slot import Slot
from mcpd.upstreams.stdio.failures import is_shortage, spawn_failure
from mcpd.upstreams.stdio.pipes import Pipes
from mcpd.upstreams.stdio.run import ProcessRun, Surroundings
from mcpd.upstreams.stdio.spec import ProcessSpec

STRAY_GRACE_S: Final = 1.0
"""From SIGTERM to SIGKILL for an orphan that belongs to no server."""


class StdioHost:
    """Servers that are processes of ours and speak on their stdin and stdout."""

    def __init__(
        self,
        *,
        daemon_id: str,
        reaper: Reaper,
        login: LoginShell,
        surroundings: Surroundings,
        log_of: Callable[[str], ServerLog],
        settings: Callable[[], DaemonConfig],
        memory: Memory,
        umask: int,
        nofile_soft: int | None,
    ) -> None:
        """``umask`` and ``nofile_soft`` are what processes get.

        ``login`` knows the PATH that they get. ``memory`` counts what they have not read.
        """
        self._daemon_id = daemon_id
        self._reaper = reaper
        self._login = login
        self._surroundings = surroundings
        self._log_of = log_of
        self._settings = settings
        self._memory = memory
        self._umask = umask
        self._nofile_soft = nofile_soft

    def must_wait(self, backend: ProcessSpec, then: Callable[[], None]) -> bool:
        """Return whether a start must wait until the PATH of the login shell is known."""
        return self._login.must_wait(backend, then)

    def start(
        self, slot: Slot, backend: ProcessSpec, generation: int, reports: Reports
    ) -> ProcessRun | NotStarted:
        """Spawn a process and write it down."""
        spec = backend.in_workspace(slot.cwd)
        tag = f"{self._daemon_id}:{paths.file_name(slot.id)}:{generation}"
        try:
            launch = spawn.prepare(
                spec.command,
                spec.args,
                env=spec.env,
                cwd=spec.cwd,
                tag=tag,
                inherit=spec.inherit,
                base_env=self._login.base_of(spec),
                is_typed=spec.is_typed,
            )
            launch, container = self._surroundings.containers.fit(launch, tag=tag)
            child = spawn.spawn(
                launch,
                tag=tag,
                umask=self._umask,
                nofile_soft=self._nofile_soft,
                scope=spec.scope,
            )
        except SpawnFailed as error:
            explained = self._login.explain(spec, error)
            return NotStarted(spawn_failure(slot.server, explained), is_ours=is_shortage(error))
        child.container = container
        self._reaper.register(child)
        run = ProcessRun(
            child,
            slot,
            reports,
            self._surroundings,
            log=self._log_of(slot.server),
            grace=spec.grace,
            pipes=partial(self._pipes, slot, reports),
        )
        self._surroundings.ledger.record(child, slot.server, generation)
        return run

    def _pipes(
        self,
        slot: Slot,
        reports: Reports,
        on_stderr: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> Pipes:
        settings = self._settings()
        return Pipes(
            max_message_bytes=settings.max_message_bytes,
            max_unsent_bytes=settings.outbox_bytes,
            memory=self._memory,
            on_frame=reports.frames(slot.id),
            on_stderr=on_stderr,
            on_end=on_end,
        )


def end_stray(stray: ProcId, tell: Callable[[Fact], None]) -> None:
    """End an orphan that was inherited and belongs to no server that runs."""
    tree.signal_all([stray], signal.SIGTERM)
    loop = asyncio.get_running_loop()
    loop.call_later(STRAY_GRACE_S, tree.signal_all, [stray], signal.SIGKILL)
    tell(facts.StrayEnded(stray.pid))
