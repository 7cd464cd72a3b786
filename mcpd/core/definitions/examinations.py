"""Long lists that are examined elsewhere, so that the loop goes on meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from mcpd.core.catalog.examine import Examined, Job
from mcpd.core.interface.commands import Examine
from mcpd.core.interface.context import Context

Then = Callable[[tuple[Examined, ...] | None], None]
"""Called with what was seen in a list; with ``None`` where it could not be examined."""


class Examinations:
    """Which lists are being examined elsewhere, and what goes on when that is done."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._tickets = itertools.count(1)
        self._waiting: dict[int, Then] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, job: Job, then: Then) -> None:
        """Have a list examined elsewhere."""
        ticket = next(self._tickets)
        self._waiting[ticket] = then
        self._ctx.emit(Examine(ticket, job))

    def done(self, ticket: int, found: tuple[Examined, ...] | None) -> None:
        """Take what was seen in a list."""
        then = self._waiting.pop(ticket, None)
        if then is not None:
            then(found)
