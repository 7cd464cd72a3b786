"""The wait after a start until a server that asks for roots has been told them."""

from __future__ import annotations

from typing import Final

from mcpd.core.interface.context import Context, Timer
from mcpd.core.requests.calls import Calls

ROOTS_IN: Final = 0.25
"""Seconds from when a process is ready until it has asked for roots, and from when it has been told
them until it has taken them over."""

ROOTS_MOST: Final = 10.0
"""Seconds that requests wait for that at most."""


class RootsWait:
    """Has the first requests to a process wait until it has been told the roots.

    It asks when it is initialized, and denies what is outside of them: a client alone with it
    has answered that long before it calls a tool.
    """

    def __init__(self, ctx: Context, calls: Calls) -> None:
        self._ctx = ctx
        self._calls = calls
        self._asked: set[bytes] = set()  # the ids of its open questions for roots
        self._timer: Timer | None = None
        self._ends_by = 0.0

    def process_ready(self) -> None:
        """Have requests wait if the process, which is ready now, may ask for roots."""
        entry = self._calls.entry
        if self._calls.is_modern or not (entry.roots or entry.asks_for_roots):
            return
        self._calls.start_wait.hold()
        self._ends_by = self._ctx.now + ROOTS_MOST
        self._wait()

    def asked(self, ident: bytes) -> None:
        """Note that the server asks for the roots."""
        self._asked.add(ident)
        self._wait()

    def answered(self, ident: bytes) -> None:
        """Note that the server has been answered a question, which may be one for the roots."""
        if ident in self._asked:
            self._asked.discard(ident)
            self._wait()

    def process_gone(self) -> None:
        """End the wait without sending anything: the process has ended."""
        self._asked.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if not self._calls.start_wait.is_held:
            return
        if self._timer is not None:
            self._timer.cancel()
        left = self._ends_by - self._ctx.now
        wait = left if self._asked else min(ROOTS_IN, left)
        self._timer = self._ctx.after(wait, self._end)

    def _end(self) -> None:
        self._asked.clear()
        self._calls.start_wait.let_go()
