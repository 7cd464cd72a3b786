"""The audit as the daemon has it: takes rows without waiting, has a thread write them."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcpd.audit.queue import Queue
from mcpd.audit.settings import Reports, Settings

CLOSED_S: Final = 3.0
"""Seconds in which the thread ends that was told to."""


class Writer:
    """Writes what is recorded within 250 ms.

    SQLite is imported by the thread, for the first row.
    """

    def __init__(self, state_dir: str, settings: Settings, reports: Reports) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self._state_dir = state_dir
        self._reports = reports
        self._queue = Queue()
        self.add_call = self._queue.add_call
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def add_event(
        self,
        what: str,
        *,
        principal: str | None = None,
        server: str | None = None,
        subject: str | None = None,
        detail: Mapping[str, Any] = {},
        files: Sequence[str] = (),
    ) -> None:
        """Record an event; ``detail`` has no secrets, ``files`` are hashed by the thread."""
        self._queue.add_event(what, principal, server, subject, detail, files)

    def flush(self) -> threading.Event:
        """Return what is set once the rows of now are written, or could not be."""
        return self._queue.flush()

    def end(self) -> None:
        """Have the thread write what waits, and end."""
        self._queue.close()

    def close(self) -> None:
        """Write what waits, as far as that can be, and close the file; blocks for ``CLOSED_S``."""
        self._queue.close()
        self._thread.join(CLOSED_S)

    def _run(self) -> None:
        while not len(self._queue):
            if self._queue.is_closing.is_set():
                return
            self._queue.wait()
            if not len(self._queue):
                for done in self._queue.take_flushes():
                    done.set()
        is_over = False
        try:
            from mcpd.audit.batches import Batches

            Batches(self._state_dir, self._queue, lambda: self.settings, self._reports).run()
            is_over = True
        finally:
            if not is_over:  # a mistake of ours, which is printed
                self._reports.trouble("its thread has ended", math.inf)
