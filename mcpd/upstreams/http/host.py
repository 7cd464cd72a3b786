"""Connects to servers that are reached by URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakSet

from mcpd.config.schema import DaemonConfig
from mcpd.core.wire.memory import Memory
from mcpd.upstreams.host import Reports
from mcpd.upstreams.http.authorizer import Authorizer
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.slot import Slot

if TYPE_CHECKING:
    from mcpd.upstreams.http.run import RemoteRun


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

    def must_wait(self, backend: RemoteSpec, then: Callable[[], None]) -> bool:
        """Return ``False``: nothing is needed for a start."""
        return False

    def start(
        self, slot: Slot, backend: RemoteSpec, generation: int, reports: Reports
    ) -> RemoteRun:
        """Prepare a connection."""
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
