"""Checks the arguments of calls against schemas, in the validator's process."""

from __future__ import annotations

from collections.abc import Callable

from mcpd import tasks
from mcpd.core.interface.commands import Validate
from mcpd.core.interface.events import Validated, Violation
from mcpd.daemon.workers import processes
from mcpd.schemas.channel import Process
from mcpd.schemas.validator import Unchecked, Validator
from mcpd.supervise.reaper import Reaper

ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
"""The variables that the validator's process gets."""


class ArgumentChecks:
    """The validator, whose process is started for the first check."""

    def __init__(self, reaper: Reaper, dispatch: Callable[[Validated], None]) -> None:
        self._reaper = reaper
        self._dispatch = dispatch
        self._validator = Validator(self._spawn)
        self._group = tasks.Group()

    def prewarm(self) -> None:
        """Start its process now: a call is about to need it."""
        self._validator.prewarm()

    def check(self, command: Validate) -> None:
        """Check, and dispatch ``Validated`` later."""
        self._group.spawn(self._check(command), name="checks.check")

    async def close(self) -> None:
        """End the validator's process."""
        self._validator.close()
        await self._group.close()

    async def _check(self, command: Validate) -> None:
        outcome = await self._validator.check(command.schema, command.arguments)
        if isinstance(outcome, Unchecked):
            self._dispatch(Validated(command.ticket, note=outcome.reason))
        else:
            found = tuple(Violation(each.path, each.message) for each in outcome)
            self._dispatch(Validated(command.ticket, found))

    def _spawn(self, argv: list[str]) -> Process:
        return processes.spawn(self._reaper, argv, ENVIRONMENT)
