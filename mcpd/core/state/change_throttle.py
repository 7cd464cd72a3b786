"""When one listener is told that a list is another one: not too often, and not too late."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.interface.context import Context, Timer

CHANGES_EVERY = 0.25
"""Seconds between two notices of one kind to one listener."""


class ChangeThrottle:
    """One listener's clocks, one for each kind of notice."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}
        self._timers: dict[str, Timer] = {}

    def tell(self, ctx: Context, notice: str, send: Callable[[], None]) -> None:
        """Have a notice sent, now or when its kind may be told again; a burst is one."""
        if notice in self._timers:
            return

        def tell() -> None:
            self._timers.pop(notice, None)
            self._told_at[notice] = ctx.now
            send()

        wait = self._told_at.get(notice, -CHANGES_EVERY) + CHANGES_EVERY - ctx.now
        if wait <= 0:
            tell()
        else:
            self._timers[notice] = ctx.after(wait, tell)

    def stop(self) -> None:
        """The listener is gone."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
