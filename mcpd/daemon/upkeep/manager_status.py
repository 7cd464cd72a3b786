"""What the daemon's service manager hears of it, and when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from mcpd.core.mux.mux import Mux
from mcpd.daemon.servers.registry import Registry
from mcpd.service.notify import Notifier
from mcpd.upstreams.supervisor import Supervisor

STATUS_EVERY_S = 1.0
"""Between a change and the line about it, so that a busy daemon tells one line a second."""

AGAIN_S = 0.1
"""Before something is said once more that the manager had no room for."""

MARGIN_S = 10.0
"""What the end may take beside the drain and what the slowest server is given."""

TOLD = ("ready", "starting", "backoff", "stopping", "failed")
"""States that are told, those first that stand for a server with several processes."""


class ManagerStatus:
    """Tells; nothing else depends on it, and without a manager it does nothing.

    A sign of life is given from the loop, so that there is none when it no longer turns.
    """

    def __init__(
        self, notifier: Notifier, registry: Registry, mux: Mux, supervisor: Supervisor
    ) -> None:
        self._notifier = notifier
        self._registry = registry
        self._mux = mux
        self._supervisor = supervisor
        self._told = ""  # the last line
        self._is_stopping = False
        self._status: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None

    def ready(self) -> None:
        """Clients are answered, for the first time or after a reload."""
        if self._is_stopping:
            return
        self._told = self.describe()
        if not self._notifier.ready(self._told):
            asyncio.get_running_loop().call_later(AGAIN_S, self.ready)
        if self._watchdog is None:
            self._live()

    def changed(self) -> None:
        """Something may be different now; cheap, and to be called as often as that is so."""
        if self._notifier.is_on and self._status is None and not self._is_stopping:
            loop = asyncio.get_running_loop()
            self._status = loop.call_later(STATUS_EVERY_S, self._tell)

    def reloading(self) -> None:
        """The configuration is being read; ``ready`` follows."""
        if not self._is_stopping:
            self._notifier.reloading()

    def stopping(self, reason: str, drain_s: float) -> None:
        """The end has begun; calls in flight have ``drain_s`` seconds."""
        self._is_stopping = True
        self._cancel_status()
        runs = [slot.run.grace for slot in self._supervisor.slots() if slot.run is not None]
        within_s = drain_s + 2 * max(runs, default=0.0) + MARGIN_S
        self._notifier.stopping(f"stopping: {reason}", within_s)

    def close(self) -> None:
        """All is told."""
        self._cancel_status()
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._notifier.close()

    def describe(self) -> str:
        """Return the line about how things are."""
        states: dict[str, list[str]] = {server.name: [] for server in self._registry}
        for slot in self._supervisor.slots():
            states.setdefault(slot.server, []).append(slot.machine.state.value)
        stand_for = (next((s for s in TOLD if s in found), "") for found in states.values())
        return summary(stand_for, len(states), self._mux.session_count())

    def _tell(self) -> None:
        self._status = None
        text = self.describe()
        if text == self._told:
            return
        if self._notifier.status(text):
            self._told = text
        else:
            self.changed()

    def _live(self) -> None:
        if self._notifier.watchdog_s is None:
            return
        self._notifier.alive()
        loop = asyncio.get_running_loop()
        self._watchdog = loop.call_later(self._notifier.watchdog_s / 2, self._live)

    def _cancel_status(self) -> None:
        if self._status is not None:
            self._status.cancel()
            self._status = None


def summary(states: Iterable[str], servers: int, sessions: int) -> str:
    """Return one line: how many servers there are, in which states, and how many sessions.

    ``states`` has one for each server that runs, or tries to; others are not told.
    """
    count = Counter(states)
    told = ", ".join(f"{count[state]} {state}" for state in TOLD if count[state])
    return f"{_number(servers, 'server')}: {told or 'none runs'}; {_number(sessions, 'session')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
