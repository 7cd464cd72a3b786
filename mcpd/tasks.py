"""Tasks: the only caller of ``create_task``, which names tasks and logs their crashes.

Also groups of tasks, and work of a peer done in slices. Logs through ``logging``, which asyncio has
imported already.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

log = logging.getLogger("mcpd.tasks")

FEW_LINES: Final = 32
"""Lines of one read that are handled at once. If there are more, other peers have turns between."""

SLICE_BYTES: Final = 16 * 1024
"""Bytes handled in one step of such a turn."""

REST_BYTES: Final = 64 * 1024
"""Bytes of one read after which other peers have a turn. libuv reads up to 32 times in a row from
one descriptor, and a large message comes as fast as it is read."""

TURN_S: Final = 0.002
"""Seconds of work for one peer before the loop serves others."""

LONG_S: Final = 0.03
"""Seconds of the processor that a step may take before its peer has to rest."""

REST_FACTOR: Final = 40
"""How many times as long as such a step its peer rests."""

REST_MOST_S: Final = 1.5
"""Seconds of a rest at most: the answers of a server that rests wait as well."""

_Result = TypeVar("_Result")


def spawn(work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
    """Start ``work`` as a task on the running loop; log the exception if it crashes."""
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
    """Call ``work`` and return its result; log an exception and return ``None`` instead.

    For callbacks in which a bug must not stop what other peers depend on.
    """
    try:
        return work(*arguments)
    except Exception as error:
        keys = {"call": getattr(work, "__qualname__", repr(work))}
        log.error("call.crashed", exc_info=error, extra={"keys": keys})
        return None


def attempt_each(handlers: Mapping[type[Any], Callable[[Any], object]], items: list[Any]) -> None:
    """Call the handler of each item's type; log an exception and go on with the next item."""
    for item in items:
        try:
            handlers[type(item)](item)
        except Exception as error:
            keys = {"item": type(item).__name__}
            log.error("call.crashed", exc_info=error, extra={"keys": keys})


class Group:
    """Tasks that are cancelled together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a task that belongs to this group."""
        task = spawn(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, *, timeout: float = 5.0) -> None:
        """Cancel the tasks that still run, and wait up to ``timeout`` seconds for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)


class Turnstile:
    """Lets one task through in each iteration of the loop, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False

    async def passed(self) -> None:
        """Wait for a turn; there is no wait where nobody has had one in this iteration."""
        loop = asyncio.get_running_loop()
        if not self._is_closed:
            self._is_closed = True
            loop.call_soon(self._next)
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its task was cancelled
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._is_closed = False


class Shared(Generic[_Result]):
    """Work that is done once for all who ask before it begins; one after the other."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, _Result]], *, name: str) -> None:
        self._work = work
        self._name = name
        self._running: asyncio.Task[_Result] | None = None
        self._next: asyncio.Task[_Result] | None = None

    async def result(self) -> _Result:
        """Return the result of work that begins from now on."""
        if self._next is None or self._next.done():
            self._next = spawn(self._run_after(self._running), name=self._name)
        return await asyncio.shield(self._next)

    async def _run_after(self, running: asyncio.Task[_Result] | None) -> _Result:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self._work()


class FairReader:
    """Processes the input of one peer in slices of ``TURN_S``, so that it does not block others.

    A step is not interrupted. Where one that took more than ``LONG_S`` is followed by another
    within ``REST_FACTOR`` times as long, nothing of that peer is read for that time: few of the
    others' messages meet such a step. One alone costs its peer nothing.

    Invariant: steps run in the order in which they were added, and reading from the peer is paused
    while any are left.
    """

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        """Create it; ``pause`` stops reading from the peer, and ``resume`` continues."""
        self._pause = pause
        self._resume = resume
        self._work: deque[Iterator[None]] = deque()
        self._next: asyncio.Handle | None = None
        self._is_running = False
        self._long_until = 0.0
        """Until when another long step has the peer rest."""

    @property
    def is_behind(self) -> bool:
        """Whether steps are left to run."""
        return bool(self._work)

    def take(self, work: Iterator[None]) -> None:
        """Add work after everything else, and run its steps now and in later iterations."""
        self._work.append(work)
        if self._next is None:
            self._run()

    def first(self, work: Iterator[None]) -> None:
        """Add work before everything else; it runs in this slice or in the next."""
        self._work.appendleft(work)
        if not self._is_running:
            self.rest()

    def rest(self) -> None:
        """Pause reading until the loop has served the other peers."""
        if self._next is None:
            self._pause()
            self._next = asyncio.get_running_loop().call_soon(self._run)

    def drop(self) -> None:
        """Discard the steps that are left."""
        self._work.clear()
        self._long_until = 0.0
        if self._next is not None:
            self._next.cancel()
            self._end_pause()

    def _run(self) -> None:
        self._is_running = True
        used_s, began = time.thread_time(), time.monotonic()
        until = began + TURN_S
        work: Iterator[None] | None = None
        try:
            while self._work and time.monotonic() < until:
                work = self._work[0]
                # next() returns None for a step; it may have dropped all work, or added some first
                if next(work, True) and self._work and self._work[0] is work:
                    self._work.popleft()
        except BaseException:
            if self._work and self._work[0] is work:
                self._work.popleft()
            raise
        finally:
            self._is_running = False
            self._go_on(self._rest_after(began, used_s))

    def _rest_after(self, began: float, used_s: float) -> float:
        """Return for how many seconds the peer rests, after steps that began then."""
        now = time.monotonic()
        if now - began <= LONG_S:
            return 0.0
        took_s = time.thread_time() - used_s  # without the time of other processes
        if took_s <= LONG_S:
            return 0.0
        rest_s = min(took_s * REST_FACTOR, REST_MOST_S)
        is_second = began < self._long_until
        self._long_until = now + rest_s * (2 if is_second else 1)  # counted from the rest's end
        return rest_s if is_second else 0.0

    def _go_on(self, rest_s: float) -> None:
        """Run the next slice later, or resume reading where nothing is left."""
        if self._work or rest_s:
            if self._next is None:
                self._pause()
            loop = asyncio.get_running_loop()
            again = loop.call_later(rest_s, self._run) if rest_s else loop.call_soon(self._run)
            self._next = again
        elif self._next is not None:
            self._end_pause()

    def _end_pause(self) -> None:
        self._next = None
        self._resume()
