"""How the daemon comes to its end: who asks for it, and what becomes of calls and sessions."""

from __future__ import annotations

import asyncio

from mcpd.core.facts import Failure
from mcpd.core.interface.events import Draining, Farewell
from mcpd.daemon.dispatcher import Dispatcher
from mcpd.daemon.downstream import Listeners
from mcpd.daemon.http.switch import HttpSwitch
from mcpd.upstreams.supervisor import Supervisor

FLUSH_S = 0.5
"""Seconds for clients to read what is still queued for them."""

DRAINING = Failure(
    kind="draining",
    message="the daemon is on its way out",
    is_retryable=True,
    hint="mcpctl up starts another",
)


class Drain:
    """Ends calls, servers and sessions, in this order."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        supervisor: Supervisor,
        listeners: Listeners,
        http: HttpSwitch,
    ) -> None:
        self._http = http
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._listeners = listeners
        self._quiet: asyncio.Future[None] | None = None
        self._is_hurried = False

    async def run(self, timeout: float) -> int:
        """Accept no client, let calls in flight end, stop the servers, close the sessions.

        ``timeout`` is in seconds, for the calls. Returns how many servers were stopped.
        """
        await self._listeners.close()
        await self._http.drain()
        self._dispatcher.dispatch(Draining())
        await self._wait_quiet(timeout)
        stopped = await self._supervisor.drain(DRAINING)
        await self._close_sessions()
        await self._http.close()
        return stopped

    def hurry(self) -> None:
        """Wait for calls no longer, and give servers little time to end."""
        self._is_hurried = True
        if self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)
        self._supervisor.hurry()

    async def _wait_quiet(self, timeout: float) -> None:
        mux = self._dispatcher.mux
        if self._is_hurried or not mux.in_flight_count():
            return
        quiet = self._quiet = asyncio.get_running_loop().create_future()

        def check() -> None:
            if not quiet.done() and not mux.in_flight_count():
                quiet.set_result(None)

        self._dispatcher.on_quiet = check
        await asyncio.wait((quiet,), timeout=timeout)
        self._dispatcher.on_quiet = None

    async def _close_sessions(self) -> None:
        """Close all sessions. Nothing is read between the farewell and the close."""
        self._dispatcher.dispatch(Farewell())
        outboxes = list(self._dispatcher.outboxes.values())
        slow = [each for each in outboxes if each.unsent_bytes()]
        for outbox in outboxes:
            outbox.close("the daemon ends")
        await asyncio.gather(*(each.wait_gone(FLUSH_S) for each in slow))


class Ending:
    """The request that the daemon ends. A second one hurries the drain of the first."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._requested: asyncio.Future[tuple[str, float | None]]
        self._requested = asyncio.get_running_loop().create_future()

    def request(self, reason: str, timeout: float | None = None) -> None:
        """Ask for the end; ``timeout`` seconds for calls in flight, ``None`` as configured."""
        if self._requested.done():
            self._drain.hurry()
        else:
            self._requested.set_result((reason, timeout))

    async def wait(self) -> tuple[str, float | None]:
        """Wait for a request, and return its reason and time-out."""
        return await self._requested
