"""Turns the HTTP front on and off as the configuration says; imports it where there is need."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mcpd import tasks
from mcpd.config.schema import HttpConfig
from mcpd.core.interface.commands import KeepSession

if TYPE_CHECKING:
    from mcpd.daemon.http.front import HttpFront

RETRY_S: Final = 60.0
"""Between two tries to open an address."""

FLUSH_S: Final = 0.5
"""Seconds for clients to read what is still queued for them."""


class HttpSwitch:
    """The front, while there is an address."""

    def __init__(
        self,
        settings: Callable[[], HttpConfig],
        trouble: Callable[[str], None],
        **parts: Any,
    ) -> None:
        """``parts`` are what ``HttpFront`` takes.

        ``trouble`` is told of each new reason why an address is not open.
        """
        self._problems: list[str] = []
        self._settings = settings
        self._trouble = trouble
        self._parts = parts
        self._front: HttpFront | None = None
        self._turn = asyncio.Lock()
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False

    def start(self) -> None:
        """Apply the configuration, without waiting for it."""
        tasks.spawn(self.apply(), name="http.apply")

    async def apply(self) -> list[str]:
        """Open and close addresses as the configuration says; return what is wrong with them."""
        async with self._turn:
            if not self._is_closed:
                await self._apply()
            return self._problems

    @property
    def problems(self) -> list[str]:
        """Why addresses are not open, or nobody is let in."""
        trouble = None if self._front is None else self._front.tokens.trouble
        if trouble is None:
            return self._problems
        return [*self._problems, f"http.auth: no token can be used: {trouble}"]

    def keep(self, command: KeepSession) -> None:
        """Have a session saved."""
        if self._front is not None:
            self._front.keep(command)

    @property
    def addresses(self) -> list[str]:
        """The addresses that are open."""
        return [] if self._front is None else self._front.open_addresses

    async def drain(self) -> None:
        """Accept no client any more."""
        self._is_closed = True
        self._stop_retry()
        async with self._turn:
            if self._front is not None:
                await self._front.drain()

    async def close(self) -> None:
        """End what is left of it."""
        self._is_closed = True
        self._stop_retry()
        async with self._turn:
            await self._turn_off()

    async def _apply(self) -> None:
        self._stop_retry()
        wanted = self._settings().addresses
        before = self._problems
        if not wanted:
            self._problems = []
            await self._turn_off()
            return
        try:
            self._problems = await (await self._loaded()).listen(wanted)
        except (ImportError, OSError) as error:  # it is broken, or no descriptors are left
            self._problems = [f"http.listen: the HTTP server cannot be started: {error}"]
        for problem in self._problems:
            if problem not in before:
                self._trouble(problem)
        if self._problems:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self.start)

    async def _loaded(self) -> HttpFront:
        if self._front is None:
            module = await asyncio.to_thread(importlib.import_module, "mcpd.daemon.http.front")
            front: HttpFront = module.HttpFront(**self._parts)
            self._front = front
        return self._front

    async def _turn_off(self) -> None:
        front, self._front = self._front, None
        if front is not None:
            await front.close(FLUSH_S)

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
