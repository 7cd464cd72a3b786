"""Runs probes in parallel, within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


class Probes:
    """Runs probes in daemon threads until a deadline; a probe that hangs ends with the program.

    It does not use ``concurrent.futures``, whose threads the interpreter joins at exit: a probe of
    a dead network disk may never end.
    """

    def __init__(self, time_limit_s: float) -> None:
        self._deadline = time.monotonic() + time_limit_s
        self._found: dict[str, Any] = {}
        self.unfinished: list[str] = []
        """Names of the probes that did not finish in time, or that raised."""

    def run(self, probes: Mapping[str, Callable[[], Any]], *, most_s: float | None = None) -> None:
        """Run probes in parallel, and wait for them until the deadline, ``most_s`` s at most."""
        deadline = self._deadline
        if most_s is not None:
            deadline = min(deadline, time.monotonic() + most_s)
        threads = {
            name: threading.Thread(target=self._run, args=(name, probe), name=name, daemon=True)
            for name, probe in probes.items()
        }
        for thread in threads.values():
            thread.start()
        for name, thread in threads.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            if name not in self._found:
                self.unfinished.append(name)

    def get(self, name: str) -> Any:
        """Return the result of a probe, or ``None`` if it did not finish in time."""
        return self._found.get(name)

    def _run(self, name: str, probe: Callable[[], Any]) -> None:
        self._found[name] = probe()
