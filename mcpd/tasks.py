"""The only caller of ``create_task``: named tasks, crashes logged, groups, work that takes turns.

Logs through ``logging``, which asyncio has loaded anyway; ``mcpd.observe`` passes it on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, TypeVar

log = logging.getLogger("mcpd.tasks")

TURN_S: Final = 0.002
"""How long one peer may keep everybody else waiting."""

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


def attempt_each(effects: Mapping[type[Any], Callable[[Any], object]], items: list[Any]) -> None:
    """Call for each item what its type asks for; a bug in one keeps nothing from the next."""
    for item in items:
        try:
            effects[type(item)](item)
        except Exception as error:
            keys = {"item": type(item).__name__}
            log.error("call.crashed", exc_info=error, extra={"keys": keys})


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


class Turns:
    """What one peer gives us to do, a few milliseconds at a time: others have theirs in between.

    Invariant: steps are done in the order they came in, and while some are left ``pause`` holds.
    """

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        """``pause`` is to see to it that the peer brings nothing more until ``resume``."""
        self._pause = pause
        self._resume = resume
        self._work: deque[Iterator[None]] = deque()
        self._next: asyncio.Handle | None = None
        self._is_going = False

    @property
    def is_behind(self) -> bool:
        """Whether something is left to do."""
        return bool(self._work)

    def take(self, work: Iterator[None]) -> None:
        """Do some work, one step after another, now and when it is our turn again."""
        self._work.append(work)
        if self._next is None:
            self._go()

    def first(self, work: Iterator[None]) -> None:
        """Do some work before anything else that is left: in this turn of ours, or in the next."""
        self._work.appendleft(work)
        if not self._is_going:
            self.rest()

    def rest(self) -> None:
        """Bring nothing more before everybody else had a turn."""
        if self._next is None:
            self._pause()
            self._next = asyncio.get_running_loop().call_soon(self._go)

    def drop(self) -> None:
        """Leave undone what is left."""
        self._work.clear()
        if self._next is not None:
            self._next.cancel()
            self._end_pause()

    def _go(self) -> None:
        self._is_going = True
        until = time.monotonic() + TURN_S
        while self._work and time.monotonic() < until:
            work = self._work[0]
            # a step is None; it may have dropped all, or put other work in front
            if next(work, True) and self._work and self._work[0] is work:
                self._work.popleft()
        self._is_going = False
        if self._work:
            if self._next is None:
                self._pause()
            self._next = asyncio.get_running_loop().call_soon(self._go)
        elif self._next is not None:
            self._end_pause()

    def _end_pause(self) -> None:
        self._next = None
        self._resume()
