"""Checks of arguments for the mux, by the validator's process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

from mcpd import tasks
from mcpd.core.mux.commands import Validate
from mcpd.core.mux.events import Validated, Violation
from mcpd.schemas.channel import Process
from mcpd.schemas.validator import Unchecked, Validator
from mcpd.supervise import procfs
from mcpd.supervise.process import Child
from mcpd.supervise.reaper import Reaper

ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
"""All of ours that the worker needs."""


class ArgumentChecks:
    """The validator, started when somebody first needs it."""

    def __init__(self, reaper: Reaper, dispatch: Callable[[Validated], None]) -> None:
        self._reaper = reaper
        self._dispatch = dispatch
        self._validator = Validator(self._spawn)
        self._group = tasks.Group()

    def prewarm(self) -> None:
        """Have it ready when the server that is being started has listed its tools."""
        self._validator.prewarm()

    def check(self, command: Validate) -> None:
        """Answer with ``Validated``, later."""
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
        """Start a worker; the reaper takes its status, and it is nobody's tree."""
        popen = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        )
        assert popen.stdin is not None
        assert popen.stdout is not None
        stdin, stdout = os.dup(popen.stdin.fileno()), os.dup(popen.stdout.fileno())
        popen.stdin.close()
        popen.stdout.close()
        identity = procfs.identify(popen.pid)
        started = procfs.ticks_now() if identity is None else identity.started
        child = self._reaper.register(Child(popen, started))

        def kill() -> None:
            if child.returncode is None:  # its pid is nobody else's until then
                os.kill(child.pid, signal.SIGKILL)

        return Process(popen.pid, stdin, stdout, kill)
