"""Results of calls in which invisible characters are looked for, with answers in their order."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Final

from msgspec import Raw, structs

from mcpd.core.catalog.results import clean_at_once, is_proven_clean
from mcpd.core.catalog.sanitise import Level, Removed
from mcpd.core.facts import ResultFlagged
from mcpd.core.interface.commands import CleanResult
from mcpd.core.interface.context import Context
from mcpd.core.interface.events import ResultCleaned
from mcpd.core.mcp.methods import Route
from mcpd.core.requests.calls import Calls
from mcpd.core.requests.inflight import Outcome, UpstreamRequest
from mcpd.core.wire.framing import Frame

AT_ONCE: Final = 16 * 1024
"""Bytes of a result that is cleaned on the loop; a longer one elsewhere."""

PROVEN_AT_ONCE: Final = 1024 * 1024
"""Bytes of a result that may be proven to be clean on the loop."""


class _Answer:
    """One answer of a server, with what its client gets."""

    __slots__ = ("answer", "calls", "frame", "is_done", "kept_bytes", "leg", "outcome")

    def __init__(
        self,
        calls: Calls,
        leg: UpstreamRequest,
        answer: Raw | None,
        frame: Frame,
        outcome: Outcome,
    ) -> None:
        self.calls = calls
        self.leg = leg
        self.answer = answer
        self.frame = frame
        self.outcome = outcome
        self.is_done = True
        self.kept_bytes = 0


class ResultCleaning:
    """Looks at the results of calls. Answers to one session leave in the order they came."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._tickets = itertools.count(1)
        self._cleaning: dict[int, _Answer] = {}
        self._queues: dict[tuple[Calls, int], deque[_Answer]] = {}

    def __len__(self) -> int:
        """Return how many answers wait."""
        return sum(map(len, self._queues.values()))

    def take(
        self,
        calls: Calls,
        leg: UpstreamRequest,
        answer: Raw | None,
        frame: Frame,
        outcome: Outcome,
    ) -> None:
        """Take an answer; it is passed on once it was looked at, after those before it."""
        taken = _Answer(calls, leg, answer, frame, outcome)
        if outcome.result is not None and leg.method.route is Route.TOOL:
            self._look(taken, outcome.result)
        queue = self._queues.get((calls, leg.owner))
        if taken.is_done and queue is None:
            calls.finish(leg, answer, frame, taken.outcome)
            return
        calls.hold(leg)
        taken.kept_bytes = len(frame)
        if leg.kept is not None:
            leg.kept.add(taken.kept_bytes)
        self._queues.setdefault((calls, leg.owner), deque()).append(taken)

    def cleaned(self, event: ResultCleaned) -> None:
        """Take a result that was cleaned; pass on what waited for it."""
        taken = self._cleaning.pop(event.ticket, None)
        if taken is None:
            return
        taken.is_done = True
        if event.classes:
            self._note(taken, event.result, event.classes)
        key = taken.calls, taken.leg.owner
        queue = self._queues[key]
        while queue and queue[0].is_done:
            first = queue.popleft()
            if not queue:
                del self._queues[key]
            if first.leg.kept is not None and not first.leg.is_over:
                first.leg.kept.add(-first.kept_bytes)
            first.calls.finish(first.leg, first.answer, first.frame, first.outcome)
            first.calls.let_go(first.leg)

    def _look(self, taken: _Answer, result: Raw | bytes) -> None:
        """Clean a short result, and have a long one cleaned elsewhere."""
        entry = taken.leg.entry
        level: Level = "invisible"
        if entry is not None and entry.rules.sanitise == "strict":
            level = "strict"
        size = len(memoryview(result))
        if size <= PROVEN_AT_ONCE and is_proven_clean(bytes(result), level):
            return
        if size > AT_ONCE:
            ticket = next(self._tickets)
            taken.is_done = False
            self._cleaning[ticket] = taken
            self._ctx.emit(CleanResult(ticket, result, level))
            return
        removed = Removed()
        found = clean_at_once(bytes(result), level, removed)
        if removed:
            self._note(taken, found, tuple(sorted(removed.counts)))

    def _note(self, taken: _Answer, found: bytes | None, classes: tuple[str, ...]) -> None:
        """Tell what a result has that nobody can see, and pass it on without, where asked for."""
        leg, entry = taken.leg, taken.leg.entry
        if entry is None:
            return
        leg.seen = classes
        is_clean = entry.rules.results == "clean" and found is not None
        if is_clean:
            taken.outcome = structs.replace(taken.outcome, result=found)
        self._ctx.tell(ResultFlagged(entry.name, leg.tool, classes, is_clean))
