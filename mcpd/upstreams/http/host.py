"""Connects to servers that are reached by URL."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from mcpd import tasks
from mcpd.config.schema import DaemonConfig
from mcpd.core.facts import Failure
from mcpd.core.wire.memory import Memory
from mcpd.upstreams.host import NotStarted, Reports
from mcpd.upstreams.http.authorizer import Authorizer
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.slot import Slot

if TYPE_CHECKING:
    from mcpd.upstreams.http.run import RemoteRun

_RUN: Final = "mcpd.upstreams.http.run"


class RemoteHost:
    """Servers that are reached by URL. Imports the HTTP client when the first one starts."""

    def __init__(
        self,
        *,
        authorizer: Callable[[RemoteSpec], Authorizer],
        environment: Mapping[str, str],
        settings: Callable[[], DaemonConfig],
        memory: Memory,
    ) -> None:
        """``authorizer`` returns what authorises the requests to a server.

        ``environment`` names proxies. ``memory`` counts what servers have not read.
        """
        self._authorizer = authorizer
        self._environment = environment
        self._settings = settings
        self._memory = memory
        self._runs: WeakSet[RemoteRun] = WeakSet()
        self._is_loaded = False
        self._problem: ImportError | None = None
        self._waiting: list[Callable[[], None]] = []

    def must_wait(self, backend: RemoteSpec, then: Callable[[], None]) -> bool:
        """Return whether the HTTP client has to be imported first, which is done in a thread."""
        if self._is_loaded:
            return False
        if not self._waiting:
            tasks.spawn(self._load(), name="http.load")
        self._waiting.append(then)
        return True

    async def _load(self) -> None:
        try:
            await asyncio.to_thread(importlib.import_module, _RUN)
        except ImportError as error:
            self._problem = error
        self._is_loaded = True
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def start(
        self, slot: Slot, backend: RemoteSpec, generation: int, reports: Reports
    ) -> RemoteRun | NotStarted:
        """Prepare a connection."""
        if self._problem is not None:
            why = f"{slot.server} cannot be reached: {self._problem}"
            return NotStarted(Failure("spawn_failed", why, slot.server), is_ours=True)
        from mcpd.upstreams.http.run import Limits, RemoteRun

        settings = self._settings()
        run = RemoteRun(
            backend,
            slot,
            reports,
            authorizer=self._authorizer(backend),
            environment=self._environment,
            memory=self._memory,
            limits=Limits(
                max_message_bytes=settings.max_message_bytes,
                max_unsent_bytes=settings.outbox_bytes,
            ),
        )
        self._runs.add(run)
        return run

    def drop_idle(self) -> None:
        """Close all connections that nobody uses: the machine has slept, or the network changed."""
        for run in list(self._runs):
            run.drop_idle()
