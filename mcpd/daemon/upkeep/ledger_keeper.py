"""The record of processes on disk, kept up to date also after the disk was full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcpd.errors import PathRefused
from mcpd.supervise.cleanup.ledger import Ledger
from mcpd.supervise.process import Child

RETRY_S = 10.0
"""Seconds between two tries to write what a full disk did not take."""


class LedgerKeeper:
    """The ledger of this daemon. Servers run also while it cannot be written."""

    def __init__(
        self, state_dir: str, daemon_id: str, *, on_trouble: Callable[[str, OSError], None]
    ) -> None:
        """``on_trouble`` is called with the path and the reason, once, when writing fails."""
        self._state_dir = state_dir
        self._daemon_id = daemon_id
        self._on_trouble = on_trouble
        self._ledger: Ledger | None = None
        self._retry: asyncio.TimerHandle | None = None
        """The next try, while the last change is not on disk."""

    def open(self) -> str:
        """Create the ledger and return its path; raise ``PathRefused`` where that fails."""
        try:
            self._ledger = Ledger(self._state_dir, self._daemon_id)
        except OSError as error:
            raise PathRefused(
                f"cannot keep a record of processes in {self._state_dir}: {error.strerror}",
                hint="MCPD_STATE_DIR names another place for it",
            ) from None
        return self._ledger.path

    @property
    def trouble(self) -> OSError | None:
        """Why the last change is not on disk, ``None`` when it is."""
        return None if self._ledger is None else self._ledger.trouble

    def record(self, child: Child, server: str, generation: int) -> None:
        """Write down a process that was just spawned."""
        if self._ledger is not None:
            self._ledger.record(child, server, generation)
            self._check()

    def save(self) -> None:
        """Write everything again, with the members of trees that have become known."""
        if self._ledger is not None:
            self._ledger.save()
            self._check()

    def forget(self, child: Child) -> None:
        """Remove a process whose tree is gone."""
        if self._ledger is not None:
            self._ledger.forget(child)
            self._check()

    def close(self) -> None:
        """Remove the ledger: no process is left."""
        if self._retry is not None:
            self._retry.cancel()
        if self._ledger is not None:
            self._ledger.close()

    def _check(self) -> None:
        """Report once that the ledger cannot be written, and try again until it can."""
        ledger = self._ledger
        trouble = self.trouble
        if ledger is not None and trouble is not None and self._retry is None:
            self._on_trouble(ledger.path, trouble)
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if trouble is not None:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(RETRY_S, self.save)
