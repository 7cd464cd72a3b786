"""Looks at long lists and results of servers in a thread, which lets the loop run in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import TypeVar

from msgspec import Raw

from mcpd import tasks
from mcpd.core.catalog.examine import Examined, examining
from mcpd.core.catalog.results import cleaning
from mcpd.core.catalog.sanitise import Level, Removed
from mcpd.core.interface.commands import CleanResult, Examine
from mcpd.core.interface.events import ListExamined, ResultCleaned

_Result = TypeVar("_Result")


class Examinations:
    """Lists and results that are looked at. It takes milliseconds, and the loop goes on."""

    def __init__(self, dispatch: Callable[[ListExamined | ResultCleaned], None]) -> None:
        self._dispatch = dispatch
        self._group = tasks.Group()

    def examine(self, command: Examine) -> None:
        """Look at a list, and dispatch ``ListExamined`` later."""
        self._group.spawn(self._examine(command), name="catalog.examine")

    def clean(self, command: CleanResult) -> None:
        """Clean a result, and dispatch ``ResultCleaned`` later."""
        self._group.spawn(self._clean(command), name="result.clean")

    async def close(self) -> None:
        """Wait for nothing any more."""
        await self._group.close()

    async def _examine(self, command: Examine) -> None:
        found: tuple[Examined, ...] | None = None
        try:
            found = await asyncio.to_thread(_run, examining(command.job))
        finally:  # a list that cannot be looked at is one, too
            self._dispatch(ListExamined(command.ticket, found))

    async def _clean(self, command: CleanResult) -> None:
        found: bytes | None = None
        removed = Removed()
        try:
            found = await asyncio.to_thread(_clean, command.result, command.level, removed)
        finally:
            classes = tuple(sorted(removed.counts)) if found is not None else ()
            self._dispatch(ResultCleaned(command.ticket, found, classes))


def _clean(result: Raw | bytes, level: Level, removed: Removed) -> bytes:
    return _run(cleaning(bytes(result), level, removed))


def _run(steps: Generator[None, None, _Result]) -> _Result:
    """Take all steps; after each of them other threads get the interpreter."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: _Result = end.value
            return found
        time.sleep(0)
