"""Many looks at once, none of which can keep the others from being told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


class Probes:
    """Runs looks in threads until a deadline; what hangs is left behind, and ends with us.

    Not a pool of ``concurrent.futures``: the interpreter waits for its threads at exit, and a
    look at a dead network disk may never end.
    """

    def __init__(self, patience_s: float) -> None:
        self._deadline = time.monotonic() + patience_s
        self._found: dict[str, Any] = {}
        self.unfinished: list[str] = []
        """Names of the looks that did not end in time, or that failed unexpectedly."""

    def take(self, looks: Mapping[str, Callable[[], Any]], *, most_s: float | None = None) -> None:
        """Run all of them, and wait until they end: until the deadline, or ``most_s`` at most."""
        deadline = self._deadline
        if most_s is not None:
            deadline = min(deadline, time.monotonic() + most_s)
        threads = {
            name: threading.Thread(target=self._run, args=(name, look), name=name, daemon=True)
            for name, look in looks.items()
        }
        for thread in threads.values():
            thread.start()
        for name, thread in threads.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            if name not in self._found:
                self.unfinished.append(name)

    def get(self, name: str) -> Any:
        """Return what a look has found, ``None`` where it did not end in time."""
        return self._found.get(name)

    def _run(self, name: str, look: Callable[[], Any]) -> None:
        self._found[name] = look()
