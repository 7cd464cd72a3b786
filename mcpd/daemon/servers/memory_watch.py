"""Restarts servers over their ``memory_max`` when they are idle.

Nothing is measured, and no timer runs, while no server with a ``memory_max`` has a process.
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
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.slot import Slot
from mcpd.upstreams.stdio.run import process_of
from mcpd.upstreams.supervisor import Supervisor

MEASURE_EVERY_S: Final = 5.0
"""Seconds between two measurements of memory."""

MEASURE_SHARE: Final = 0.02
"""Share of the time that measuring may take: with many processes it is rarer."""

IDLE_CHECK_EVERY_S: Final = 0.1
"""Seconds between two checks whether a server over its limit is idle."""

PAUSE_S: Final = 60.0
PAUSE_MOST_S: Final = 3600.0
"""Seconds for which a process over its limit runs at least, if the one before was restarted for the
same reason; doubled each time, so that a server that needs more than its limit is not restarted
all the time."""


class MemoryWatch:
    """Measures process trees in a thread, reports those over their limit and restarts them.

    A restart waits until the server has no request in flight and has no open question. Sessions
    stay, and use the next process. It does not count as a crash.
    """

    def __init__(
        self,
        limit_of: Callable[[SlotId], int],
        *,
        supervisor: Supervisor,
        reaper: Reaper,
        mux: Mux,
        tell: Callable[[ServerOverMemory], None],
    ) -> None:
        """``limit_of`` returns the limit of the tree in a slot in bytes, 0 for none."""
        self._limit_of = limit_of
        self._supervisor = supervisor
        self._reaper = reaper
        self._mux = mux
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        self._over: dict[SlotId, Child] = {}
        """Processes over their limit that were reported; each is reported once."""
        self._pauses: dict[SlotId, float] = {}
        """Seconds for which the process of a slot runs at least, after a restart."""

    def wake(self) -> None:
        """Begin to measure, if there is a process with a limit now."""
        if self._task is None and self._watched():
            self._task = tasks.spawn(self._run(), name="memory.watch")

    def close(self) -> None:
        """Measure no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while watched := self._watched():
                began = loop.time()
                await self._measure(watched)
                now = loop.time()
                next_at = now + max(MEASURE_EVERY_S, (now - began) / MEASURE_SHARE)
                while self._may_restart() and loop.time() < next_at:
                    self._restart_idle()
                    await asyncio.sleep(IDLE_CHECK_EVERY_S)
                await asyncio.sleep(max(0.0, next_at - loop.time()))
        finally:
            self._task = None

    def _watched(self) -> dict[Child, tuple[Slot, int]]:
        """Return the processes that are ready and have a limit, with slot and limit."""
        found = {}
        for slot in self._supervisor.slots():
            child = process_of(slot)
            if child is not None and slot.machine.state is State.READY:
                limit = self._limit_of(slot.id)
                if limit > 0:
                    found[child] = (slot, limit)
        ids = {slot.id for slot in self._supervisor.slots()}
        for ident in [ident for ident in self._pauses if ident not in ids]:
            del self._pauses[ident]
        for ident in [ident for ident, child in self._over.items() if child not in found]:
            del self._over[ident]
        return found

    async def _measure(self, watched: Mapping[Child, tuple[Slot, int]]) -> None:
        members = await self._reaper.scan_trees()
        trees = {
            child: ([each.pid for each in members.get(child, ())], limit)
            for child, (_, limit) in watched.items()
        }
        taken = await asyncio.to_thread(_excesses, trees)
        for child, (slot, limit) in watched.items():
            if process_of(slot) is not child:
                continue  # it has ended in the meantime
            if (takes := taken.get(child)) is None:
                self._over.pop(slot.id, None)
            elif self._over.get(slot.id) is not child:
                self._over[slot.id] = child
                is_busy = not self._mux.is_unused(slot.id)
                self._supervisor.note_problem(slot.id, _failure(slot.server, takes, limit))
                self._tell(ServerOverMemory(slot.server, slot.id, takes, limit, is_busy))

    def _lived(self, ident: SlotId) -> float | None:
        """Return for how long the reported process has been ready, ``None`` if it is not there."""
        slot = self._supervisor.get(ident)
        if slot is None or process_of(slot) is not self._over[ident]:
            return None
        ready_at = slot.machine.ready_at
        return None if ready_at is None else self._supervisor.now() - ready_at

    def _may_restart(self) -> list[tuple[SlotId, float]]:
        """Return the slots that may be restarted, with the seconds since they were ready."""
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


def _excesses(trees: Mapping[Child, tuple[list[int], int]]) -> dict[Child, int]:
    """Return the memory of the trees that are over their limit, in bytes."""
    found = {child: memory.excess(pids, limit) for child, (pids, limit) in trees.items()}
    return {child: takes for child, takes in found.items() if takes is not None}


def _failure(server: str, takes: int, limit: int) -> Failure:
    text = f"{server} takes {_size(takes)}, and its memory_max is {_size(limit)}"
    return Failure("server_stopped", text, server, True)


def _size(count: int) -> str:
    return f"{count / 2**20:.{0 if count >= 10 * 2**20 else 1}f} MiB"
