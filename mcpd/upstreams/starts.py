"""The queue of starts: how many servers start at a time, and what a start waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mcpd.upstreams.slot import Slot, Slots


class Starts:
    """Starts that wait for their turn.

    Invariant: a start that is not wanted any more takes no turn, and one that waits for something
    else than a turn lets the others pass.
    """

    def __init__(
        self,
        slots: Slots,
        *,
        at_once: int,
        start: Callable[[Slot, int], None],
        must_wait: Callable[[Slot], bool],
    ) -> None:
        """``start`` starts a generation in a slot.

        ``must_wait`` tells whether what the slot's host needs for a start is missing.
        """
        self.at_once = at_once
        """How many servers may be starting at a time."""
        self._slots = slots
        self._start = start
        self._host_must_wait = must_wait
        self._queue: deque[tuple[Slot, int]] = deque()
        """Each with its generation."""
        self._is_allowed = False
        self._is_pumping = False

    def add(self, slot: Slot, generation: int) -> None:
        """Queue a start; a further process of a start that is under way has its turn already."""
        if slot.machine.is_between_processes:
            self._queue.appendleft((slot, generation))
        else:
            self._queue.append((slot, generation))

    def allow(self) -> None:
        """Start servers from now on; until then they are queued."""
        self._is_allowed = True
        self.pump()

    def pump(self) -> None:
        """Start what waits, as far as its turn has come."""
        if self._is_pumping or not self._is_allowed:
            return
        self._is_pumping = True
        try:
            starting = self._count()
            held: list[tuple[Slot, int]] = []
            while self._queue and self._has_turn(self._queue[0][0], starting):
                slot, generation = self._queue.popleft()
                if slot in self._slots.closed or not slot.machine.may_spawn(generation):
                    continue
                if self._must_wait(slot):
                    held.append((slot, generation))
                    continue
                self._start(slot, generation)
                starting = self._count()
            self._queue.extendleft(reversed(held))
        finally:
            self._is_pumping = False

    def _has_turn(self, slot: Slot, starting: int) -> bool:
        return starting < self.at_once or slot.machine.is_between_processes

    def _count(self) -> int:
        return sum(slot.is_starting for slot in self._slots.open.values())

    def _must_wait(self, slot: Slot) -> bool:
        """Return whether a start waits for something else than its turn."""
        return (
            any(self._slots.contains(other) for other in slot.before)
            or self._host_must_wait(slot)
            or self._waits_for_package(slot)
        )

    def _waits_for_package(self, slot: Slot) -> bool:
        """Return whether another start fills the same package cache, which is not safe for two."""
        package = slot.package
        return (
            package is not None
            and package.is_exclusive
            and any(
                other is not slot and other.package == package and other.is_fetching
                for other in self._slots.all()
            )
        )
