"""The log level of a legacy process: the most verbose that any client wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Raw

from mcpd.core.mcp import legacy
from mcpd.core.mcp.methods import CLIENT_REQUESTS, LEVELS
from mcpd.core.requests.calls import Calls

LevelWaiter = Callable[[Raw | bytes | None], None]
"""Called when the level is set, with the server's error if it has refused it."""


class LogLevel:
    """Sets the log level of each process of a slot.

    One request is sent at a time, because a server may handle two of them in any order.
    """

    def __init__(self, calls: Calls, can_set: Callable[[], bool]) -> None:
        """``can_set`` tells whether there is a process, ready, that takes log levels."""
        self.wanted: str | None = None
        """The log level that the process is, or will be, set to."""
        self._calls = calls
        self._can_set = can_set
        self._sent: str | None = None
        self._accepted: str | None = None  # the last that a process agreed to
        self._is_setting = False
        self._waiters: dict[LevelWaiter, None] = {}

    def set(self, level: str, then: LevelWaiter | None = None) -> None:
        """Set the most verbose level that any client wants."""
        self.wanted = level
        if self._is_setting and self._can_set():
            if then is not None:
                self._waiters[then] = None
        elif self._is_due:
            self._send(level, then)
        elif then is not None:
            then(None)

    def set_at_least(self, level: str, then: LevelWaiter | None = None) -> None:
        """Set a level unless a more verbose one is wanted already."""
        self.set(min(level, self.wanted or level, key=LEVELS.index), then)

    def wait_no_more(self, then: LevelWaiter) -> None:
        """Remove a waiter of ``set``; harmless for one that does not wait."""
        self._waiters.pop(then, None)

    def process_introduced(self) -> None:
        """Note that there is a new process, which has been sent no level yet.

        The one before may have been a modern one: its requests, which a legacy process gets now,
        carry the levels that their clients want.
        """
        self._sent = None
        if self._calls.is_modern:
            return
        for leg in (*self._calls.unfinished(), *self._calls.between):
            if leg.is_modern and leg.client_info is not None and leg.client_info.level:
                self.set_at_least(leg.client_info.level)

    def send(self, then: LevelWaiter) -> None:
        """Send the level, if one is wanted, to a process that need not be ready yet."""
        if self.wanted is not None:
            self._send(self.wanted, then)

    def send_due(self) -> None:
        """Send the level if it is another one than the process was sent last."""
        if self.wanted is not None and self._is_due:
            self._send(self.wanted, None)

    @property
    def _is_due(self) -> bool:
        return self.wanted is not None and self.wanted != self._sent and self._can_set()

    def _send(self, level: str, then: LevelWaiter | None) -> None:

        def answered(error: Raw | bytes | None) -> None:
            if error is None:
                self._accepted = level
            elif self.wanted == level:
                self.wanted = self._sent = self._accepted
            ended(error)

        def ended(error: Raw | bytes | None) -> None:
            # No answer is no refusal: the process may have the level, and the next is sent it.
            self._is_setting = False
            if then is not None:
                then(error)
            if self._is_setting:
                return
            if self.wanted is not None and self._is_due:  # it has changed since it was sent
                self._send(self.wanted, None)
                return
            waiters, self._waiters = self._waiters, {}
            for waiter in waiters:
                waiter(error)

        self._is_setting = True
        self._sent = level
        self._calls.own_requests.ask(
            CLIENT_REQUESTS["logging/setLevel"],
            legacy.level_params(level),
            lambda result, error: answered(error),
            unanswered=ended,
        )


def most_verbose(levels: Iterable[str]) -> str | None:
    """Return the level that shows everything that any of these does."""
    return min(levels, key=LEVELS.index, default=None)
