"""The only caller of ``create_task``: named tasks, crashes logged, groups that end by a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger("mcpd.tasks")


def spawn(work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
    """Start ``work`` as a task on the running loop; a crash of it is logged, never lost."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    _alive.add(task)
    task.add_done_callback(_ended)
    return task


_alive: set[asyncio.Task[Any]] = set()  # the loop itself keeps only weak references


def _ended(task: asyncio.Task[Any]) -> None:
    _alive.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task.crashed", task=task.get_name(), exc_info=error)


class Group:
    """Tasks that end together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a task that belongs to this group."""
        task = spawn(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, *, timeout: float = 5.0) -> None:
        """Cancel what still runs and wait for it, ``timeout`` seconds at most."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
