"""An event loop whose time passes only while nothing else can happen."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Skips the time that a loop would wait."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing can happen any more")
        self.passed += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop without sockets: each timer comes as soon as everything before it is done."""

    def __init__(self) -> None:
        self._passes = _Selector()
        super().__init__(self._passes)

    def time(self) -> float:
        """Return the seconds that have been skipped."""
        return self._passes.passed


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Have a test run in virtual time."""

    @functools.wraps(test)
    def ran(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return ran


async def settle() -> None:
    """Return once nothing can happen before a timer comes."""
    await asyncio.sleep(1e-6)


async def settled(what: Awaitable[T]) -> T:
    """Return the result of ``what``, which comes at once."""
    async with asyncio.timeout(1e-6):
        return await what
