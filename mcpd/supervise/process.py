"""A child process as its parent sees it: identity, pipes, exit status."""

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


class TreeScanner(Protocol):
    """Scans the process table for the trees of all children at once; implemented by the reaper."""

    async def scan_trees(self) -> Mapping[Child, Sequence[Stat]]:
        """Return the living processes of each child's tree."""


class Child:
    """One process that we started, leader of its own session and process group.

    Invariant: its pid cannot be reused until ``returncode`` is set, because only the reaper waits
    for it. A signal sent to the pid or the group before that cannot reach another process.
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
        """Our ends, non-blocking; closed by the transport that wraps them. -1: none."""
        self.pipe_inodes = frozenset(os.fstat(fd).st_ino for fd in pipes if fd >= 0)
        self.returncode: int | None = None
        """The exit status, negative if a signal ended it; set by the reaper."""
        self.died: int | None = None
        """Kernel ticks from boot to when the reaper collected its status."""
        self.known: set[ProcId] = set()
        """Descendants found by earlier scans; a later scan may not recognise them any more."""
        self.escaped: set[ProcId] = set()
        """Those of ``known`` that have left its session."""
        self.ended = False
        """Whether no process of its tree is left; set by the ladder."""
        self.container: Container | None = None
        """The container that its command may start; set when it is spawned."""
        self.scanner: TreeScanner | None = None
        """Set when it is registered with the reaper."""
        self._callbacks: list[Callable[[Child], None]] = []

    @property
    def id(self) -> ProcId:
        """Return its identity, which no other process ever has."""
        return ProcId(self.pid, self.started)

    @property
    def pgid(self) -> int:
        """Return its process group, which is also its session."""
        return self.pid

    def on_exit(self, callback: Callable[[Child], None]) -> None:
        """Call ``callback`` once, from the loop, when the exit status is known."""
        if self.returncode is None:
            self._callbacks.append(callback)
        else:
            asyncio.get_running_loop().call_soon(callback, self)

    async def wait_exit(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds until it has ended; return whether it has.

        Woken by its exit, without polling. Cancelling is safe.
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
        """Return the error details ``exit_code`` or ``signal``; empty while it runs."""
        if self.returncode is None:
            return {}
        if self.returncode >= 0:
            return {"exit_code": self.returncode}
        try:
            return {"signal": signal.Signals(-self.returncode).name}
        except ValueError:
            return {"signal": f"SIG{-self.returncode}"}

    def signal_group(self, signum: int) -> None:
        """Send a signal to its process group, unless it has been reaped.

        Until then its pid, and so the number of the group, cannot be reused.
        """
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signum)

    def publish_exit(self, returncode: int, died: int) -> None:
        """Set the exit status and schedule the exit callbacks. Called once, by the reaper."""
        self.returncode = returncode
        self.died = died
        self._process.returncode = returncode  # else Popen would wait for a pid that may be reused
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:  # through the loop: one that raises does not stop the others
            asyncio.get_running_loop().call_soon(callback, self)

    def __repr__(self) -> str:
        return f"<Child {self.pid} {self.tag or self.argv[:1]} {self.describe_exit() or 'lives'}>"
