"""Comments on quiet streams, so that proxies and clients do not take them for dead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from mcpd.listeners.http.streams import KEEPALIVE, Outbox


class Keepalive:
    """Sends a comment to every connection that was sent nothing for a while: one timer for all."""

    def __init__(self, every_s: float) -> None:
        """``every_s`` is in seconds; 0 sends none."""
        self._every_s = every_s
        self._quiet: dict[Outbox, bool] = {}
        """Open streams, and whether nothing was sent on each since the last round."""
        self._timer: asyncio.TimerHandle | None = None

    def change(self, every_s: float) -> None:
        """Send them at another interval, also on streams that are open."""
        self._every_s = every_s
        self.close()
        if self._quiet:
            self._arm()

    @contextlib.contextmanager
    def watching(self, outbox: Outbox) -> Iterator[None]:
        """Keep a stream alive while the block runs."""
        self._quiet[outbox] = False
        self._arm()
        try:
            yield
        finally:
            del self._quiet[outbox]

    def written(self, outbox: Outbox) -> None:
        """Note that something was sent on a stream."""
        self._quiet[outbox] = False

    def close(self) -> None:
        """Send no more comments."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is None and self._every_s > 0:
            self._timer = asyncio.get_running_loop().call_later(self._every_s / 2, self._round)

    def _round(self) -> None:
        self._timer = None
        for outbox, is_quiet in list(self._quiet.items()):
            if is_quiet:
                outbox.put(KEEPALIVE)
            self._quiet[outbox] = True
        if self._quiet:
            self._arm()
