"""What the parts of the mux share while they handle one event: the time, the timers, the output."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Final

from mcpd.core.facts import (
    Fact,
    FactsOmitted,
    Failure,
    FrameRejected,
    ServerLogged,
    ServerNoise,
    ServerWarning,
)
from mcpd.core.interface.commands import Command, Tell
from mcpd.core.interface.entries import Settings
from mcpd.core.wire.memory import Memory
from mcpd.ids import SessionId, SlotId

_FEW = 64  # timers that are not worth tidying up

TOLD_PER_S: Final = 20
"""Facts of one kind and of one peer that are told within a second. The rest is counted."""

_ANY_NUMBER = (ServerNoise, ServerWarning, ServerLogged, FrameRejected)
"""Facts that a peer can cause with every line that it writes."""


class Timer:
    """A deadline that can be called off."""

    __slots__ = ("_ctx", "act", "at")

    def __init__(self, at: float, act: Callable[[], None], ctx: Context) -> None:
        self.at = at
        self.act: Callable[[], None] | None = act
        self._ctx = ctx

    def cancel(self) -> None:
        """Call it off; harmless when it is over."""
        if self.act is not None:
            self.act = None
            self._ctx.count_cancelled()


class Context:
    """Collects commands and holds the clock: ``now`` is monotonic seconds, set for each event."""

    def __init__(
        self, settings: Settings, suggest: Callable[[str, Iterable[str]], list[str]]
    ) -> None:
        self.settings = settings
        self.memory = Memory(settings.max_buffered_bytes)
        self.suggest = suggest
        self.unfinished: Callable[[SlotId], tuple[bytes, int]] = lambda slot: (b"", 0)
        """Returns how a line begins that a process has not ended, and its bytes so far."""
        self.now = 0.0
        self.commands: list[Command] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0
        self.soonest = math.inf
        """No timer is due before; moved on when somebody asks for the next deadline."""
        self.tells_calls = False
        """Whether calls are recorded: each that ends is emitted as a ``CallEnded``."""
        self.suspension: Failure | None = None
        """Why no call is sent to any server; ``None`` while they are."""
        """Whether something listens for the facts of calls."""
        self.approval_listeners = 0
        """How many connections are told of each question whether a call may run."""
        self._told: dict[tuple[str, str | int], int] = {}

    def emit(self, command: Command) -> None:
        """Ask the outside to do something, after what was asked before."""
        self.commands.append(command)

    def tell(self, fact: Fact) -> None:
        """Say that something happened; of what a peer can cause at any rate, only so much."""
        if isinstance(fact, _ANY_NUMBER):
            peer = fact.session if isinstance(fact, FrameRejected) else fact.server
            key = type(fact).__name__, peer
            count = self._told[key] = self._told.get(key, 0) + 1
            if count == 1:
                self.after(1.0, lambda: self._end_second(*key))
            if count > TOLD_PER_S:
                return
        self.commands.append(Tell(fact))

    def _end_second(self, kind: str, peer: str | int) -> None:
        omitted = self._told.pop((kind, peer)) - TOLD_PER_S
        if omitted <= 0:
            return
        if isinstance(peer, str):
            self.commands.append(Tell(FactsOmitted(kind, omitted, server=peer)))
        else:
            self.commands.append(Tell(FactsOmitted(kind, omitted, session=SessionId(peer))))

    def after(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Do something later."""
        timer = Timer(self.now + seconds, act, self)
        self.soonest = min(self.soonest, timer.at)
        heapq.heappush(self._timers, (timer.at, next(self._order), timer))
        return timer

    def next_deadline(self) -> float | None:
        """Return when something is due, in monotonic seconds."""
        while self._timers and self._timers[0][2].act is None:
            heapq.heappop(self._timers)
            self._cancelled -= 1
        self.soonest = self._timers[0][0] if self._timers else math.inf
        return None if self.soonest == math.inf else self.soonest

    def run_due(self) -> None:
        """Do what is due by now."""
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            act, timer.act = timer.act, None
            if act is not None:
                act()
            else:
                self._cancelled -= 1

    def count_cancelled(self) -> None:
        """Tidy up when most timers are called off: one may be due in a day."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].act is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0
