"""Starts, restarts and stops servers: for the mux, for people and for the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from mcpd.core.facts import Fact, Failure
from mcpd.core.interface.commands import OpenSlot
from mcpd.core.interface.events import ServerDown
from mcpd.core.lifecycle.failures import unstartable
from mcpd.core.lifecycle.machine import AfterStop
from mcpd.core.lifecycle.start_timeout import StartTimeouts
from mcpd.core.lifecycle.states import State
from mcpd.ids import SlotId
from mcpd.upstreams.driver import Driver, Events, Servers
from mcpd.upstreams.failures import no_workspace
from mcpd.upstreams.host import UpstreamHost
from mcpd.upstreams.run import Backend
from mcpd.upstreams.slot import Slot, launch_of


class Supervisor:
    """All slots, and what is asked of them."""

    def __init__(
        self,
        hosts: Mapping[type[Backend], UpstreamHost[Any]],
        *,
        servers: Servers,
        events: Events,
        now: Callable[[], float],
        tell: Callable[[Fact], None],
        starts_at_once: int,
    ) -> None:
        """``now`` returns the time in seconds, on the clock of all deadlines."""
        self.now = now
        """The clock on which ``spawned_at`` and ``ready_at`` of a machine are measured."""
        self._servers = servers
        self._events = events
        self._driver = Driver(
            hosts,
            servers=servers,
            events=events,
            now=now,
            tell=tell,
            moved=self._deadline_moved,
            starts_at_once=starts_at_once,
        )
        self._slots = self._driver.slots
        self._starts = self._driver.starts
        self._start_timeouts = StartTimeouts()
        self._draining: Failure | None = None
        self._deadline: float | None = None
        self.is_stale = False
        """Whether the next deadline may be another one than was returned last."""

    # -- commands of the mux ----------------------------------------------------------------------

    def open(self, command: OpenSlot) -> None:
        """Make a slot, or keep one that was about to be closed. Starts nothing yet.

        Nothing is started there before its predecessors are empty.
        """
        kept = self._slots.get(command.slot)
        if kept is not None:  # other slots need not wait any more for it to end
            for slot in self._slots.open.values():
                slot.before -= {kept}
            self._starts.pump()
            return
        backend = self._servers.backend(command.slot)
        if backend is None:
            return
        before = self._slots.predecessors(command.slot, command.server, command.after)
        self._slots.open[command.slot] = Slot(
            command.slot,
            command.server,
            command.cwd,
            before,
            backend,
            self._start_timeouts.of(launch_of(command.slot)),
        )

    def close(self, ident: SlotId, reason: str) -> None:
        """Stop what runs in a slot and forget the slot."""
        self._events.channels.pop(ident, None)
        slot = self._slots.close(ident)
        if slot is not None:
            self._driver.stop(slot, Failure("server_stopped", reason, slot.server, True))

    def want(self, ident: SlotId) -> None:
        """Start a server for a request that waits, unless it has failed too often."""
        slot = self._slots.get(ident)
        if slot is None:
            return
        if (refusal := self._refusal(slot)) is not None:
            self._events.dispatch(ServerDown(ident, refusal, True, False))
            return
        self._driver.input(slot, slot.machine.start_on_demand)
        if slot.machine.state in (State.FAILED, State.LOGIN):
            failure = unstartable(slot.server, slot.machine.last_failure)
            self._events.dispatch(ServerDown(ident, failure, False, False))

    def busy(self, ident: SlotId) -> None:
        """Note that the server has users."""
        if slot := self._slots.get(ident):
            slot.machine.busy()
            self.is_stale = True

    def idle(self, ident: SlotId) -> None:
        """Note that the server has no users any more."""
        if slot := self._slots.get(ident):
            slot.machine.idle(self.now())
            self.is_stale = True

    def introduced(self, ident: SlotId) -> None:
        """Note that the handshake is done, and the tools are not listed yet."""
        if slot := self._slots.get(ident):
            self._driver.introduced(slot)

    def ready(self, ident: SlotId, version: str) -> None:
        """Note that the handshake is done, in this revision, and the tools are listed."""
        if slot := self._slots.get(ident):
            slot.version = version
            if slot.run is not None:
                slot.run.was_ready = True
            self._driver.input(slot, slot.machine.ready)

    def probing(self, ident: SlotId, *, is_on: bool) -> None:
        """Note that the server is sent a request that may end it; report when it was read."""
        slot = self._slots.get(ident)
        if slot is None:
            return
        slot.machine.set_probing(is_on)
        if slot.run is not None:
            slot.run.watch_probe(is_on=is_on)

    def start_over(self, ident: SlotId, reason: str) -> None:
        """Replace the run that is starting by another, within the same start."""
        if slot := self._slots.get(ident):
            failure = Failure("server_stopped", reason, slot.server, True)
            self._driver.input(slot, lambda now: slot.machine.replace_process(now, failure))

    def answered(self, ident: SlotId) -> None:
        """Note that the server has answered a call."""
        if slot := self._slots.get(ident):
            slot.machine.answered()

    def refuse_start(self, ident: SlotId, failure: Failure) -> None:
        """End a start whose server cannot be used, though it runs."""
        if slot := self._slots.get(ident):
            self._driver.refuse_start(slot, failure)

    # -- requests of people -----------------------------------------------------------------------

    def start(self, ident: SlotId) -> asyncio.Future[Failure | None]:
        """Start a server on request; the future is done with the outcome of this one start."""
        slot = self._slots.open[ident]
        outcome = slot.expect(lambda: slot.machine.state is State.READY)
        if (refusal := self._refusal(slot)) is not None:
            slot.wake_waiters(refusal)
            return outcome
        self._driver.input(slot, slot.machine.start)
        return outcome

    def restart(self, ident: SlotId, failure: Failure) -> asyncio.Future[Failure | None]:
        """Restart a server on request; the future is done with the outcome of the start.

        Requests in flight fail with ``failure``.
        """
        slot = self._slots.open[ident]
        outcome = slot.expect(lambda: slot.machine.state is State.READY)
        if self._draining is not None:
            slot.wake_waiters(self._draining)
            return outcome
        self._driver.stop(slot, failure, then=AfterStop.START)
        return outcome

    def stop(self, ident: SlotId, failure: Failure) -> None:
        """Stop a server on request; its requests fail with ``failure``."""
        slot = self._slots.open[ident]
        if slot.run is None:
            slot.step = None  # that of an earlier stop
        self._driver.stop(slot, failure)

    def replace(self, ident: SlotId, failure: Failure) -> None:
        """Restart a server that has no users. Not a crash, and nobody waits for the outcome."""
        if slot := self._slots.get(ident):
            self._driver.stop(slot, failure, then=AfterStop.START)

    def reset_start_timeout(self, launch: str) -> None:
        """Begin the next start of a launch with the time-out of its entry, which has changed."""
        self._start_timeouts.of(launch).reset()

    def clear_failed(self, ident: SlotId, reason: str) -> None:
        """Let a server start again that failed too often, or waits for somebody to sign in."""
        slot = self._slots.get(ident)
        if slot is not None and slot.machine.state in (State.FAILED, State.LOGIN):
            self._driver.stop(slot, Failure("server_stopped", reason, slot.server, True))

    def note_problem(self, ident: SlotId, failure: Failure) -> None:
        """Show a failure in ``status`` for a server that goes on running."""
        if slot := self._slots.get(ident):
            slot.machine.last_error, slot.machine.last_failure = failure.message, failure
            slot.failed_at = datetime.now(UTC)

    async def wait_empty(self, ident: SlotId) -> None:
        """Wait until nothing is left of what runs in a slot now, and in its predecessors."""
        slot = self._slots.get(ident)
        if slot is not None:
            for each in (*slot.before, slot):
                await _wait_empty(each)

    # -- requests of the daemon -------------------------------------------------------------------

    def get(self, ident: SlotId) -> Slot | None:
        """Return an open slot."""
        return self._slots.get(ident)

    def slots(self) -> list[Slot]:
        """Return all slots, including closed ones of which something is left."""
        return self._slots.all()

    def allow_starts(self) -> None:
        """Start servers from now on: what a dead daemon left is gone."""
        self._starts.allow()

    def apply_settings(self, *, starts_at_once: int) -> None:
        """Take over what the configuration says now about starting and stopping."""
        self._starts.at_once = starts_at_once
        for slot in self._slots.open.values():
            backend = self._servers.backend(slot.id)
            if backend is not None:
                slot.server, slot.machine.rules = backend.server, backend.rules
        self.is_stale = True

    def next_deadline(self) -> float | None:
        """Return when ``tick`` has something to do, on the clock of ``now``."""
        if self.is_stale:
            self.is_stale = False
            times = (slot.machine.next_deadline() for slot in self._slots.open.values())
            self._deadline = min((at for at in times if at is not None), default=None)
        return self._deadline

    def tick(self, now: float) -> None:
        """Do what is due."""
        for slot in list(self._slots.open.values()):
            due = slot.machine.next_deadline()
            if due is not None and due <= now:
                self._driver.input(slot, slot.machine.tick)

    async def drain(self, failure: Failure) -> int:
        """Stop all servers at the same time and start no more; return how many were running."""
        self._draining = failure
        running = [slot for slot in self._slots.all() if slot.run is not None]
        for slot in list(self._slots.open.values()):
            self._driver.stop(slot, failure)
        for slot in running:
            await _wait_empty(slot)
        return len(running)

    def hurry(self) -> None:
        """Shorten the grace of what is being stopped, and of what will be."""
        self._driver.hurry()

    def _deadline_moved(self) -> None:
        self.is_stale = True
        self._events.arm()

    def _refusal(self, slot: Slot) -> Failure | None:
        """Return why nothing may be started in a slot, ``None`` where something may."""
        if self._draining is not None:
            return self._draining
        backend = self._servers.backend(slot.id)
        if backend is not None and backend.of_workspace and slot.cwd is None:
            return no_workspace(slot.server)
        return None


async def _wait_empty(slot: Slot) -> None:
    run = slot.run
    while slot.run is run and not slot.is_empty:
        await slot.expect(lambda: slot.run is not run or slot.is_empty)
