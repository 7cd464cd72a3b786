"""A server's notifications that its lists have changed: a burst of them becomes one reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from mcpd.core.catalog.model import Kind
from mcpd.core.interface.context import Context, Timer
from mcpd.core.requests.process import Process

REFRESH_EVERY: Final = 1.0
"""Seconds between two readings of a list: after changes, and where clients ask for it."""

_GATHER: Final = 0.02  # seconds in which a burst of list changes becomes one


class ListChanges:
    """Has each list that has changed read soon, and at most once in ``REFRESH_EVERY``."""

    def __init__(self, ctx: Context, process: Process, refresh: Callable[[Kind], None]) -> None:
        """``refresh`` reads a list again."""
        self._ctx = ctx
        self._process = process
        self._refresh = refresh
        self._early: set[Kind] = set()
        """Lists that changed before the process was ready."""
        self._refreshed_at: dict[Kind, float] = {}
        self._timers: dict[Kind, Timer] = {}

    def add(self, kinds: Iterable[Kind]) -> None:
        """Take the lists that the server says have changed."""
        for kind in kinds:
            if kind not in self._timers:
                again_at = self._refreshed_at.get(kind, 0.0) + REFRESH_EVERY
                due = max(self._ctx.now + _GATHER, again_at)
                self._timers[kind] = self._ctx.after(due - self._ctx.now, partial(self._due, kind))

    def take_early(self) -> set[Kind]:
        """Return the lists that changed before the process was ready, and forget them."""
        early, self._early = self._early, set()
        return early

    def clear(self) -> None:
        """Forget the changes: the process is gone."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._early.clear()

    def _due(self, kind: Kind) -> None:
        self._timers.pop(kind, None)
        self._refreshed_at[kind] = self._ctx.now
        if self._process.is_ready:
            self._refresh(kind)
        else:
            self._early.add(kind)
