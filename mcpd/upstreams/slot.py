"""One slot for a server: its lifecycle machine, what runs there now, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from mcpd.core.facts import Failure
from mcpd.core.lifecycle.machine import Machine
from mcpd.core.lifecycle.start_timeout import StartTimeout
from mcpd.core.lifecycle.states import State
from mcpd.ids import SlotId
from mcpd.upstreams.run import Backend, Run
from mcpd.upstreams.steps import Steps


class Slot:
    """A slot for a server and its restarts; at most one run is alive there."""

    def __init__(
        self,
        ident: SlotId,
        server: str,
        cwd: str | None,
        before: frozenset[Slot],
        backend: Backend,
        start_timeout: StartTimeout,
    ) -> None:
        self.id = ident
        self.server = server
        self.cwd = cwd
        """The root of the workspace that it is for, if it is for one."""
        self.before = before
        """Slots of which nothing must be left before anything is started here."""
        self.package = backend.package
        self.machine = Machine(server, backend.rules, start_timeout)
        self.run: Run | None = None
        self.steps: Steps | None = None
        """Those of the last start, ``None`` before the first."""
        self.reason = ""
        """Why it is being stopped."""
        self.version = ""
        """The revision of MCP that its server speaks."""
        self.failed_at: datetime | None = None
        """When ``machine.last_error`` happened, by the wall clock."""
        self.step: str | None = None
        """How far the last stop had to go."""
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[Failure | None]]] = []

    @property
    def is_starting(self) -> bool:
        """Whether it counts against the number of servers that start at a time."""
        if self.machine.state is not State.STARTING:
            return False
        return self.machine.is_between_processes or (self.run is not None and not self.run.is_down)

    @property
    def is_fetching(self) -> bool:
        """Whether it may be filling a package cache: until it was ready, or is gone."""
        if self.package is None:
            return False
        return self.machine.is_between_processes or (
            self.run is not None and not self.run.was_ready
        )

    @property
    def is_installing(self) -> bool:
        """Whether it is starting and a package runner may not have started the server yet."""
        run = self.run
        if self.package is None or run is None or not self.is_starting:
            return False
        return not run.has_output

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs here and nothing is left of what ran."""
        return self.run is None and self.machine.state is not State.STOPPING

    def expect(self, condition: Callable[[], bool]) -> asyncio.Future[Failure | None]:
        """Return a future that is done once ``condition`` holds, or with the next failure."""
        future: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        return future

    def wake_waiters(self, failure: Failure | None = None) -> None:
        """Wake those whose condition holds, or all of them with ``failure``."""
        waiters, self._waiters = self._waiters, []
        for condition, future in waiters:
            if future.done():
                continue
            if failure is not None or condition():
                future.set_result(failure)
            else:
                self._waiters.append((condition, future))


class Slots:
    """All slots: those that are open, and those that were closed and are not empty yet."""

    def __init__(self) -> None:
        self.open: dict[SlotId, Slot] = {}
        self.closed: set[Slot] = set()

    def get(self, ident: SlotId) -> Slot | None:
        """Return an open slot."""
        return self.open.get(ident)

    def all(self) -> list[Slot]:
        """Return all of them."""
        return [*self.open.values(), *self.closed]

    def contains(self, slot: Slot) -> bool:
        """Return whether a slot is open, or closed and not empty yet."""
        return slot in self.closed or self.open.get(slot.id) is slot

    def close(self, ident: SlotId) -> Slot | None:
        """Take a slot from the open ones; its id may be given to another one."""
        slot = self.open.pop(ident, None)
        if slot is not None:
            self.closed.add(slot)
        return slot

    def predecessors(self, ident: SlotId, server: str, after: SlotId | None) -> frozenset[Slot]:
        """Return the slots that must be empty before a new one is used.

        They are ``after`` with those that it waits for itself, and the closed ones with the same
        id, or of the same server and the same sessions.
        """
        users = ident.partition("@")[2]
        before = {
            slot
            for slot in self.closed
            if slot.id == ident or (slot.server == server and slot.id.partition("@")[2] == users)
        }
        named = None if after is None else self.open.get(after)
        if named is not None:
            before |= {named, *filter(self.contains, named.before)}
        return frozenset(before)


def launch_of(ident: SlotId) -> str:
    """Return the launch of a slot's entry, which slots of other sessions share."""
    return ident.partition("@")[0]
