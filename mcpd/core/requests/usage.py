"""Whether a server is in use, so that an idle one can be stopped."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.core.interface.commands import Busy, Idle
from mcpd.core.interface.context import Context
from mcpd.ids import SlotId


class Usage:
    """The use of one slot's process by sessions and by requests; changes are reported."""

    def __init__(
        self, ctx: Context, slot: SlotId, *, load: Callable[[], int], has_work: Callable[[], bool]
    ) -> None:
        """``load`` returns how many requests of others are not over.

        ``has_work`` tells whether there is any request, or anything else that waits for the
        process.
        """
        self.users: set[int] = set()
        """Sessions that keep the server alive."""
        self.is_busy = False
        """Whether the server was last reported as in use."""
        self._ctx = ctx
        self._slot = slot
        self._load = load
        self._has_work = has_work
        self._when_free: Callable[[], None] | None = None

    def mark_busy(self) -> None:
        """Report that the server is in use."""
        if not self.is_busy:
            self.is_busy = True
            self._ctx.emit(Busy(self._slot))

    def mark_idle(self) -> None:
        """Report that the server is not in use any more, if it is not."""
        if self._when_free is not None and not self._load():
            when_free, self._when_free = self._when_free, None
            when_free()
            return
        if self.is_busy and not self.users and not self._has_work():
            self.is_busy = False
            self._ctx.emit(Idle(self._slot))

    def release(self, when_free: Callable[[], None] | None) -> None:
        """Call ``when_free`` once every request of others is over."""
        self._when_free = when_free
        self.mark_idle()

    def reclaim(self) -> None:
        """Keep the process in use: its slot is not released after all."""
        self._when_free = None
