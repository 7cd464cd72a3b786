"""Servers with a ``memory_max``: looked at while they run, restarted when they are idle.

Nothing is looked at, and no timer runs, while no such server has a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from mcpd import tasks
from mcpd.core.facts import Failure, ServerOverMemory
from mcpd.core.lifecycle.states import State
from mcpd.core.mux.mux import Mux
from mcpd.ids import SlotId
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import memory
from mcpd.supervise.slot import Slot
from mcpd.supervise.supervisor import Supervisor

LOOK_S: Final = 5.0
"""Between two looks at how much memory trees take."""

LOOK_SHARE: Final = 0.02
"""Of the time, that looks may take: where there are many processes they are rarer."""

IDLE_LOOK_S: Final = 0.1
"""Between two looks at whether a server that is over its limit has nothing to do."""

PAUSE_S: Final = 60.0
PAUSE_MOST_S: Final = 3600.0
"""How long a process that takes too much lives at least, if its predecessor was restarted for
that: twice as long each time. One that needs more than it may have is not restarted for ever."""


class MemoryWatch:
    """Has trees measured off the loop, says which take too much, and has those restarted.

    A restart waits until the server owes no answer and no question of its is open; sessions stay
    and go on with the next process. It is no crash and counts as none.
    """

    def __init__(
        self,
        limit_of: Callable[[SlotId], int],
        *,
        supervisor: Supervisor,
        mux: Mux,
        tell: Callable[[ServerOverMemory], None],
    ) -> None:
        """``limit_of`` returns what the tree in a place may take in bytes, 0 for any size."""
        self._limit_of = limit_of
        self._supervisor = supervisor
        self._mux = mux
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        self._over: dict[SlotId, Child] = {}
        """Those that take too much and were told of; a process is told of once."""
        self._pauses: dict[SlotId, float] = {}
        """How long the present process lives at least, where the last one was restarted."""

    def wake(self) -> None:
        """A process is ready, or limits may be other ones."""
        if self._task is None and self._watched():
            self._task = tasks.spawn(self._run(), name="memory.watch")

    def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while watched := self._watched():
                began = loop.time()
                await self._look(watched)
                now = loop.time()
                next_look = now + max(LOOK_S, (now - began) / LOOK_SHARE)
                while self._may_restart() and loop.time() < next_look:
                    self._restart_idle()
                    await asyncio.sleep(IDLE_LOOK_S)
                await asyncio.sleep(max(0.0, next_look - loop.time()))
        finally:
            self._task = None

    def _watched(self) -> dict[Child, tuple[Slot, int]]:
        """Return the processes that are ready and have a limit, with their places."""
        found = {}
        for slot in self._supervisor.slots():
            if slot.run is not None and slot.machine.state is State.READY:
                limit = self._limit_of(slot.id)
                if limit > 0:
                    found[slot.run.child] = (slot, limit)
        ids = {slot.id for slot in self._supervisor.slots()}
        for ident in [ident for ident in self._pauses if ident not in ids]:
            del self._pauses[ident]
        for ident in [ident for ident, child in self._over.items() if child not in found]:
            del self._over[ident]
        return found

    async def _look(self, watched: Mapping[Child, tuple[Slot, int]]) -> None:
        looked = await self._supervisor.reaper.scan_trees()
        trees = {
            child: ([each.pid for each in looked.get(child, ())], limit)
            for child, (_, limit) in watched.items()
        }
        taken = await asyncio.to_thread(_measure, trees)
        for child, (slot, limit) in watched.items():
            if slot.run is None or slot.run.child is not child:
                continue  # meanwhile it has ended
            if (takes := taken.get(child)) is None:
                self._over.pop(slot.id, None)
            elif self._over.get(slot.id) is not child:
                self._over[slot.id] = child
                is_busy = not self._mux.is_unused(slot.id)
                self._supervisor.complain(slot.id, _failure(slot.server, takes, limit))
                self._tell(ServerOverMemory(slot.server, slot.id, takes, limit, is_busy))

    def _lived(self, ident: SlotId) -> float | None:
        """Return how long what is too large has been ready, ``None`` where it is not there now."""
        slot = self._supervisor.get(ident)
        if slot is None or slot.run is None or slot.run.child is not self._over[ident]:
            return None
        ready_at = slot.machine.ready_at
        return None if ready_at is None else self._supervisor.now() - ready_at

    def _may_restart(self) -> list[tuple[SlotId, float]]:
        """Return those whose time has come, with how long they have lived."""
        lives = [(ident, self._lived(ident)) for ident in self._over]
        return [
            (ident, lived)
            for ident, lived in lives
            if lived is not None and lived >= self._pauses.get(ident, 0.0)
        ]

    def _restart_idle(self) -> None:
        for ident, lived in self._may_restart():
            slot = self._supervisor.get(ident)
            if slot is None or not self._mux.is_unused(ident):
                continue
            del self._over[ident]
            pause = self._pauses.get(ident, 0.0)
            self._pauses[ident] = PAUSE_S if lived >= PAUSE_MOST_S else _longer(pause)
            why = slot.machine.last_error or "it takes too much memory"
            failure = Failure("server_stopped", f"restarted: {why}", slot.server, True)
            self._supervisor.replace(ident, failure)


def _longer(pause: float) -> float:
    return min(max(PAUSE_S, 2 * pause), PAUSE_MOST_S)


def _measure(trees: Mapping[Child, tuple[list[int], int]]) -> dict[Child, int]:
    """Return how much those take that take more than they may."""
    found = {child: memory.excess(pids, limit) for child, (pids, limit) in trees.items()}
    return {child: takes for child, takes in found.items() if takes is not None}


def _failure(server: str, takes: int, limit: int) -> Failure:
    text = f"{server} takes {_size(takes)}, and its memory_max is {_size(limit)}"
    return Failure("server_stopped", text, server, True)


def _size(count: int) -> str:
    return f"{count / 2**20:.{0 if count >= 10 * 2**20 else 1}f} MiB"
