"""How long the bridge waits for responses after the client has closed stdin."""

from __future__ import annotations

import math
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

POLL_S = 0.2
START_WAIT_S = 300.0
"""The longest wait for servers that are still starting, in seconds."""


class Linger:
    """A timer of ``seconds`` that starts when the server is ready. All times are monotonic."""

    def __init__(self, seconds: float, is_starting: Callable[[str | None], bool]) -> None:
        self.seconds = seconds
        self._is_starting = is_starting
        self._began_at = math.inf  # when stdin ended
        self._ask_at = 0.0  # when to ask again whether the server is starting
        self._deadline: float | None = None  # once the server is ready

    def begin(self) -> None:
        """Begin: the client has closed stdin."""
        self._began_at = time.monotonic()

    def restart(self) -> None:
        """Wait for the server to be ready again, after the daemon was replaced."""
        self._deadline = None

    def next_at(self, now: float) -> float:
        """Return when to call ``is_over`` next."""
        return now + POLL_S if self._deadline is None else self._deadline

    def is_over(self, now: float, server: str | None, *, is_behind: bool) -> bool:
        """Return whether the time has passed.

        It does not run while ``is_behind``: the client has yet to read what has arrived.
        """
        if self._deadline is None:
            if now < self._ask_at:
                return False
            if now - self._began_at < START_WAIT_S and self._is_starting(server):
                self._ask_at = time.monotonic() + POLL_S
            else:
                self._deadline = time.monotonic() + self.seconds
            return False
        if is_behind:
            self._deadline = now + self.seconds
        return now >= self._deadline
