"""How long the answers are waited for that are missing when the client has ended its input."""

from __future__ import annotations

import math
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_AGAIN_S = 0.2
START_WAIT_S = 300.0
"""How long answers are waited for, at most, because some server is still starting."""


class Linger:
    """So many seconds, from when the server is ready; in all of it, instants are monotonic."""

    def __init__(self, seconds: float, is_starting: Callable[[str | None], bool]) -> None:
        self.seconds = seconds
        self._is_starting = is_starting
        self._began_at = math.inf  # when the end of input was read
        self._look_at = 0.0  # when to ask again whether the server is starting
        self._deadline: float | None = None  # once the server is ready

    def begin(self) -> None:
        """The client has ended its input."""
        self._began_at = time.monotonic()

    def begin_anew(self) -> None:
        """The server has to be ready once more."""
        self._deadline = None

    def next_at(self, now: float) -> float:
        """Return when to look at it."""
        return now + LOOK_AGAIN_S if self._deadline is None else self._deadline

    def is_over(self, now: float, server: str | None, *, is_behind: bool) -> bool:
        """Tell whether nobody waits any more.

        As long as the client ``is_behind`` with reading, the time does not run.
        """
        if self._deadline is None:
            if now < self._look_at:
                return False
            if now - self._began_at < START_WAIT_S and self._is_starting(server):
                self._look_at = time.monotonic() + LOOK_AGAIN_S
            else:
                self._deadline = time.monotonic() + self.seconds
            return False
        if is_behind:
            self._deadline = now + self.seconds
        return now >= self._deadline
