"""What the service manager is told of the daemon: ready, status, signs of life, stopping."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from mcpd.core.mux.mux import Mux
from mcpd.daemon.servers.registry import Registry
from mcpd.service.notify import Notifier
from mcpd.upstreams.supervisor import Supervisor

STATUS_EVERY_S = 1.0
"""Seconds from a change to the status line about it: at most one line a second."""

RETRY_S = 0.1
"""Seconds until ``ready`` is sent again after the manager's socket was full."""

MARGIN_S = 10.0
"""Seconds that the end may take besides the drain and the grace of the slowest server."""

SHOWN = ("ready", "starting", "backoff", "stopping", "failed", "login")
"""The states that the status line counts. A server counts once, under the first of these that one
of its processes is in."""


class ManagerStatus:
    """Sends it. Without a service manager it does nothing.

    Signs of life are sent from the event loop, so that they stop when the loop hangs.
    """

    def __init__(
        self, notifier: Notifier, registry: Registry, mux: Mux, supervisor: Supervisor
    ) -> None:
        self._notifier = notifier
        self._registry = registry
        self._mux = mux
        self._supervisor = supervisor
        self._shown = ""  # the last status line
        self._is_stopping = False
        self._status: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None

    def ready(self) -> None:
        """Send that clients are answered, after the start or a reload."""
        if self._is_stopping:
            return
        self._shown = self.describe()
        if not self._notifier.ready(self._shown):
            asyncio.get_running_loop().call_later(RETRY_S, self.ready)
        if self._watchdog is None:
            self._send_alive()

    def changed(self) -> None:
        """Send the status soon, if it has changed. Cheap: called after all that may change it."""
        if self._notifier.is_on and self._status is None and not self._is_stopping:
            loop = asyncio.get_running_loop()
            self._status = loop.call_later(STATUS_EVERY_S, self._send_status)

    def reloading(self) -> None:
        """Send that the configuration is being read; ``ready`` must follow."""
        if not self._is_stopping:
            self._notifier.reloading()

    def stopping(self, reason: str, drain_s: float) -> None:
        """Send that the daemon stops; calls in flight have ``drain_s`` seconds."""
        self._is_stopping = True
        self._cancel_status()
        runs = [slot.run.grace for slot in self._supervisor.slots() if slot.run is not None]
        within_s = drain_s + 2 * max(runs, default=0.0) + MARGIN_S
        self._notifier.stopping(f"stopping: {reason}", within_s)

    def close(self) -> None:
        """Send nothing more."""
        self._cancel_status()
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._notifier.close()

    def describe(self) -> str:
        """Return the status line."""
        states: dict[str, list[str]] = {server.name: [] for server in self._registry}
        for slot in self._supervisor.slots():
            states.setdefault(slot.server, []).append(slot.machine.state.value)
        stand_for = (next((s for s in SHOWN if s in found), "") for found in states.values())
        return summary(stand_for, len(states), self._mux.session_count())

    def _send_status(self) -> None:
        self._status = None
        text = self.describe()
        if text == self._shown:
            return
        if self._notifier.status(text):
            self._shown = text
        else:
            self.changed()

    def _send_alive(self) -> None:
        if self._notifier.watchdog_s is None:
            return
        self._notifier.alive()
        loop = asyncio.get_running_loop()
        self._watchdog = loop.call_later(self._notifier.watchdog_s / 2, self._send_alive)

    def _cancel_status(self) -> None:
        if self._status is not None:
            self._status.cancel()
            self._status = None


def summary(states: Iterable[str], servers: int, sessions: int) -> str:
    """Return the number of servers, of those in each state, and of sessions, in one line.

    ``states`` has one for each server; states that are not in ``SHOWN`` are not counted.
    """
    count = Counter(states)
    shown = ", ".join(f"{count[state]} {state}" for state in SHOWN if count[state])
    return f"{_number(servers, 'server')}: {shown or 'none runs'}; {_number(sessions, 'session')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
