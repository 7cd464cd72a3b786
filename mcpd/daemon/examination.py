"""Looks at long lists of servers in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcpd import tasks
from mcpd.core.catalog.examine import Examined, examine
from mcpd.core.interface.commands import Examine
from mcpd.core.interface.events import ListExamined


class Examinations:
    """Lists that are looked at. It takes milliseconds, and the loop goes on meanwhile."""

    def __init__(self, dispatch: Callable[[ListExamined], None]) -> None:
        self._dispatch = dispatch
        self._group = tasks.Group()

    def examine(self, command: Examine) -> None:
        """Look at a list, and dispatch ``ListExamined`` later."""
        self._group.spawn(self._examine(command), name="catalog.examine")

    async def close(self) -> None:
        """Wait for nothing any more."""
        await self._group.close()

    async def _examine(self, command: Examine) -> None:
        found: tuple[Examined, ...] | None = None
        try:
            found = await asyncio.to_thread(examine, command.job)
        finally:  # a list that cannot be looked at is one, too
            self._dispatch(ListExamined(command.ticket, found))
