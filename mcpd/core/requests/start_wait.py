"""The wait for a process to be ready: of requests to it, and of callers that need it."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import Want
from mcpd.core.interface.context import Context
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.requests.process import Process
from mcpd.core.requests.usage import Usage

Waiter = Callable[[Failure | None], None]
"""Called when the process is ready, or with why it is not going to be."""


class StartWait:
    """What waits until the process of a slot is ready; each wait asks for one to be started."""

    def __init__(
        self,
        ctx: Context,
        process: Process,
        usage: Usage,
        submit: Callable[[UpstreamRequest], None],
    ) -> None:
        """``submit`` takes each request that has waited."""
        self.is_held = False
        """Whether requests wait although the process is ready: see ``hold``."""
        self.requests: dict[UpstreamRequest, None] = {}
        self.waiters: dict[Waiter, None] = {}
        self._ctx = ctx
        self._process = process
        self._usage = usage
        self._submit = submit

    def add(self, leg: UpstreamRequest) -> None:
        """Have a request wait, and a process started for it."""
        self.requests[leg] = None
        self._ctx.emit(Want(self._process.slot))

    def when_ready(self, waiter: Waiter) -> None:
        """Call back once the process is ready, or with why it is not going to be.

        A waiter that waits already is called once.
        """
        if self._process.is_ready:
            waiter(None)
            return
        self.waiters[waiter] = None
        self._usage.mark_busy()
        self._ctx.emit(Want(self._process.slot))

    def wait_no_more(self, waiter: Waiter) -> None:
        """Remove a waiter of ``when_ready``; harmless for one that does not wait."""
        if waiter in self.waiters:
            del self.waiters[waiter]
            self._usage.mark_idle()

    def is_waiting(self, owner: int) -> bool:
        """Tell whether a request of a session waits."""
        return any(leg.owner == owner for leg in self.requests)

    def end(self) -> None:
        """Submit the requests and call the waiters: the process is ready."""
        requests, waiters = self.take()
        self._submit_all(requests)
        for waiter in waiters:
            waiter(None)

    def hold(self) -> None:
        """Have the requests of sessions and control calls wait until ``let_go``."""
        self.is_held = True

    def let_go(self) -> None:
        """Submit the requests that ``hold`` has made wait."""
        self.is_held = False
        requests, self.requests = self.requests, {}
        self._submit_all(requests)

    def take(self) -> tuple[dict[UpstreamRequest, None], dict[Waiter, None]]:
        """Return the requests and the waiters, which do not wait here any more."""
        taken = self.requests, self.waiters
        self.requests, self.waiters = {}, {}
        return taken

    def _submit_all(self, requests: dict[UpstreamRequest, None]) -> None:
        for leg in requests:
            if not leg.is_over:
                self._submit(leg)
