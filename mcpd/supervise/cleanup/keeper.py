"""Starts the daemon's guardian before the first server, and replaces it if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from mcpd.supervise.cleanup import guardian
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import procfs
from mcpd.supervise.reaper import Reaper

RESTART_S = 1.0
"""Seconds at least between two starts of a guardian."""

RETRY_S = 5.0
"""Seconds until the next try after a guardian could not be started."""

LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""The variables that a Python may need to start; the guardian inherits no others."""


class GuardianKeeper:
    """Keeps one guardian process running until ``farewell``."""

    def __init__(
        self, ledger_path: str, reaper: Reaper, *, on_trouble: Callable[[str], None]
    ) -> None:
        """Create a keeper; ``start`` starts the guardian. ``on_trouble`` receives a log message."""
        self._ledger_path = ledger_path
        self._reaper = reaper
        self._on_trouble = on_trouble
        self._child: Child | None = None
        self._pipe = -1
        self._started_at = 0.0
        self._leaving = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """Return the guardian's pid, or ``None`` if none runs."""
        alive = self._child is not None and self._child.returncode is None
        return self._child.pid if alive and self._child is not None else None

    def start(self) -> None:
        """Start the guardian, in milliseconds. The reaper must have been started."""
        self._timer = None
        loop = asyncio.get_running_loop()
        try:
            process = self._spawn()
        except OSError as error:
            self._on_trouble(f"the guardian cannot be started: {error}; servers run without it")
            self._timer = loop.call_later(RETRY_S, self.start)
            return
        identity = procfs.identify(process.pid)
        started = procfs.ticks_now() if identity is None else identity.started
        self._child = self._reaper.register(Child(process, started))
        self._child.on_exit(self._ended)
        self._started_at = loop.time()

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the process with the pipe as its stdin and no other descriptor of ours.

        Its environment is nearly empty: a tag in it would have the process ended with a server.
        """
        isolated = ["-I", "-S"] if procfs.HAVE_PROC else ["-I"]  # elsewhere it needs psutil
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, *isolated, guardian.__file__, self._ledger_path],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in LOADER if name in os.environ},
                start_new_session=True,
                umask=0o077,
            )
        except OSError:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        os.set_blocking(writing, False)
        self._close_pipe()
        self._pipe = writing
        return process

    def _ended(self, child: Child) -> None:
        if self._leaving:
            return
        self._on_trouble(f"the guardian (pid {child.pid}) ended: {child.describe_exit()}")
        loop = asyncio.get_running_loop()
        wait = self._started_at + RESTART_S - loop.time()
        if wait <= 0:
            self.start()
        else:
            self._timer = loop.call_later(wait, self.start)

    async def farewell(self, *, timeout: float = 5.0) -> None:
        """Tell the guardian that no process is left, and wait until it has ended.

        ``timeout`` is in seconds; after it the guardian is killed. Call this when all servers have
        stopped; no other guardian is started.
        """
        self._leaving = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pipe >= 0:
            with contextlib.suppress(OSError):  # it may have ended already
                os.write(self._pipe, guardian.BYE)
        self._close_pipe()
        if self._child is not None and not await self._child.wait_exit(timeout):
            self._child.signal_group(signal.SIGKILL)
            await self._child.wait_exit(timeout)

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
