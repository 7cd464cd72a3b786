"""Servers whose entries name variables for which the login shell has not been asked yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from mcpd import tasks
from mcpd.config.texts.resolving import Login
from mcpd.core.facts import Failure
from mcpd.supervise.loginenv.loginshell import LoginShell
from mcpd.upstreams.host import NotStarted, Reports
from mcpd.upstreams.run import Backend
from mcpd.upstreams.slot import Slot


class UnresolvedSpec(Backend, frozen=True, kw_only=True):
    """A server of which it is not known yet how to reach it."""

    transport: ClassVar[str] = "stdio"


class UnresolvedHost:
    """Has starts wait until the login shell has answered and the configuration was read again.

    Their entries are others then, so that nothing is started here.
    """

    def __init__(self, shell: LoginShell, reload: Callable[[], Awaitable[object]]) -> None:
        """``reload`` reads the configuration and applies it, with what ``login`` returns then."""
        self._shell = shell
        self._reload = reload
        self._waiters: set[Callable[[], None]] = set()
        self._is_applied = False

    @property
    def login(self) -> Login | None:
        """What the login shell has, ``None`` until it has answered."""
        variables = self._shell.variables
        return None if variables is None else Login(variables=variables, told=self._shell.told)

    def ask(self) -> None:
        """Ask the login shell, unless that was done."""
        self._shell.ask()

    def answered(self) -> None:
        """Read the configuration again: the shell has answered."""
        self._is_applied = False
        tasks.spawn(self._apply(), name="loginshell.apply")

    async def wait(self) -> None:
        """Wait until every entry is resolved, or is known to be wrong."""
        done = asyncio.Event()
        if self._must_wait(done.set):
            await done.wait()

    def must_wait(self, backend: UnresolvedSpec, then: Callable[[], None]) -> bool:
        """Return whether a start must wait; ``then`` is called when it need not any more."""
        return self._must_wait(then)

    def start(
        self, slot: Slot, backend: UnresolvedSpec, generation: int, reports: Reports
    ) -> NotStarted:
        """Fail: the configuration could not be read when the shell had answered."""
        why = "its variables are not known, since the configuration cannot be read now"
        failure = Failure("config_invalid", f"{slot.server}: {why}", slot.server, True)
        return NotStarted(failure, is_ours=True)

    def _must_wait(self, then: Callable[[], None]) -> bool:
        if self.login is not None and self._is_applied:
            return False
        self._waiters.add(then)
        self.ask()
        return True

    async def _apply(self) -> None:
        await self._reload()
        self._is_applied = True
        waiters, self._waiters = self._waiters, set()
        for then in waiters:
            then()
