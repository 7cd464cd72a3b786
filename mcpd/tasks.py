"""The only caller of ``create_task``: named tasks, crashes logged, groups that end by a deadline.

Logs through ``logging``, which asyncio has loaded anyway: structlog took 100 ms of the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger("mcpd.tasks")

_Result = TypeVar("_Result")


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
        keys = {"task": task.get_name()}
        log.error("task.crashed", exc_info=error, extra={"keys": keys})


def attempt(work: Callable[..., _Result], *arguments: Any) -> _Result | None:
    """Call ``work`` where a bug of ours must not end what others depend on; it is logged."""
    try:
        return work(*arguments)
    except Exception as error:
        keys = {"call": getattr(work, "__qualname__", repr(work))}
        log.error("call.crashed", exc_info=error, extra={"keys": keys})
        return None


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
