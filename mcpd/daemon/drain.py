"""The order in which a daemon ends."""

from __future__ import annotations

import asyncio

from mcpd.core.facts import Failure
from mcpd.core.mux.events import Draining, Farewell
from mcpd.daemon.dispatcher import Dispatcher
from mcpd.listeners.unix import UnixListener
from mcpd.upstreams.supervisor import Supervisor

FLUSH_S = 0.5
"""How long clients may take to read what was still for them."""

DRAINING = Failure(
    kind="draining",
    message="the daemon is on its way out",
    is_retryable=True,
    hint="mcpctl up starts another",
)


class Drain:
    """From the wish that the daemon ends to nothing that runs. Begun once, hurried at will."""

    def __init__(
        self, performer: Dispatcher, supervisor: Supervisor, listener: UnixListener
    ) -> None:
        self._performer = performer
        self._supervisor = supervisor
        self._listener = listener
        self._quiet: asyncio.Future[None] | None = None
        self._is_hurried = False

    async def run(self, timeout: float) -> int:
        """Accept nobody, let calls in flight and listens end, stop the servers, close all.

        ``timeout`` is in seconds, for the calls. Returns how many servers were stopped.
        """
        await self._listener.close()
        self._performer.dispatch(Draining())
        await self._wait_quiet(timeout)
        stopped = await self._supervisor.drain(DRAINING)
        await self._close_connections()
        return stopped

    def hurry(self) -> None:
        """Wait for nothing any more but for what must be."""
        self._is_hurried = True
        if self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)
        self._supervisor.hurry()

    async def _wait_quiet(self, timeout: float) -> None:
        if self._is_hurried or not self._performer.mux.in_flight_count():
            return
        quiet = self._quiet = asyncio.get_running_loop().create_future()

        def look() -> None:
            if not quiet.done() and not self._performer.mux.in_flight_count():
                quiet.set_result(None)

        self._performer.on_quiet = look
        await asyncio.wait((quiet,), timeout=timeout)
        self._performer.on_quiet = None

    async def _close_connections(self) -> None:
        """Close all; nothing is read between the farewell and that."""
        self._performer.dispatch(Farewell())
        connections = list(self._performer.connections.values())
        slow = [each for each in connections if each.unsent_bytes()]
        for connection in connections:
            connection.close("the daemon ends")
        await asyncio.gather(*(each.wait_gone(FLUSH_S) for each in slow))
