"""A server's process as its parent sees it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from mcpd.supervise.container import Container
from mcpd.supervise.proctable.procfs import ProcId, Stat

Scope = Literal["tree", "group"]


class Watcher(Protocol):
    """Who sees all children at once, and so can tell whose a process is: the reaper."""

    async def look(self) -> Mapping[Child, Sequence[Stat]]:
        """Return what runs of each child's tree now."""


class Child:
    """One process that we started, leader of its own session and process group.

    Invariant: its pid is ours until ``returncode`` is set, for only the reaper waits for it;
    a signal sent to the pid or the group before that cannot hit anybody else.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        started: int,
        *,
        tag: str = "",
        argv: tuple[str, ...] = (),
        scope: Scope = "tree",
        pipes: tuple[int, int, int] = (-1, -1, -1),
    ) -> None:
        self._process = process
        self.pid = process.pid
        self.started = started
        """Kernel ticks from boot to its start."""
        self.tag = tag
        self.argv = argv
        self.scope: Scope = scope
        """Whether descendants with a session of their own belong to it when it is stopped."""
        self.stdin, self.stdout, self.stderr = pipes
        """Our ends, non-blocking; whoever wraps one in a transport closes it. -1: there is none."""
        self.pipe_inodes = frozenset(os.fstat(fd).st_ino for fd in pipes if fd >= 0)
        self.returncode: int | None = None
        """Set by the reaper: the exit status, negative if a signal ended it."""
        self.died: int | None = None
        """Kernel ticks from boot to when the reaper took its status."""
        self.known: set[ProcId] = set()
        """Descendants seen at one look or another; kept as they may leave every mark behind."""
        self.away: set[ProcId] = set()
        """Those of ``known`` that have left its session, which would not find them again."""
        self.ended = False
        """Whether nothing is left of its tree; set by the ladder."""
        self.container: Container | None = None
        """What it may have had a container engine run; set when it is spawned."""
        self.watcher: Watcher | None = None
        """Set when the reaper takes it on."""
        self._callbacks: list[Callable[[Child], None]] = []

    @property
    def id(self) -> ProcId:
        """Return what tells it from every other process."""
        return ProcId(self.pid, self.started)

    @property
    def pgid(self) -> int:
        """Return its process group, which is also its session."""
        return self.pid

    def on_exit(self, callback: Callable[[Child], None]) -> None:
        """Have ``callback`` called once, in the loop, when its exit status is known."""
        if self.returncode is None:
            self._callbacks.append(callback)
        else:
            asyncio.get_running_loop().call_soon(callback, self)

    async def wait_exit(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, ``timeout`` seconds at most; return whether it has.

        Woken by its exit, not by looking again and again. Cancelling is safe.
        """
        if self.returncode is not None:
            return True
        gone = asyncio.get_running_loop().create_future()

        def wake(_: Child) -> None:
            if not gone.done():
                gone.set_result(None)

        self._callbacks.append(wake)
        try:
            await asyncio.wait((gone,), timeout=timeout)
        finally:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(wake)
        return self.returncode is not None

    def describe_exit(self) -> dict[str, int | str]:
        """Return how it ended, as errors on the socket tell it; empty while it lives."""
        if self.returncode is None:
            return {}
        if self.returncode >= 0:
            return {"exit_code": self.returncode}
        try:
            return {"signal": signal.Signals(-self.returncode).name}
        except ValueError:
            return {"signal": f"SIG{-self.returncode}"}

    def signal_group(self, signum: int) -> None:
        """Send a signal to its process group, as long as it has not been reaped.

        Its pid, and so the group's number, cannot have been given to anybody else until then.
        """
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signum)

    def publish_exit(self, returncode: int, died: int) -> None:
        """Make its exit status known and have those called who asked; the reaper's, and once."""
        self.returncode = returncode
        self.died = died
        self._process.returncode = returncode  # else Popen would wait for a pid of somebody else's
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:  # through the loop: one that raises takes nobody's news away
            asyncio.get_running_loop().call_soon(callback, self)

    def __repr__(self) -> str:
        return f"<Child {self.pid} {self.tag or self.argv[:1]} {self.describe_exit() or 'lives'}>"
