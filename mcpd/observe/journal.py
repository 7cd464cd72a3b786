"""The stream of events: numbered, the newest kept, each passed to the listeners."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from mcpd.logfiles.line import now
from mcpd.visible import encodable

KEPT = 1000
"""Events that stay in memory."""

Event = dict[str, Any]
Listener = Callable[[Event], None]


class Journal:
    """The events of ``mcpd/events``.

    Invariant: numbers grow by one, and a listener gets each event once.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._listeners: list[Listener] = []
        self.last = 0
        """The number of the newest event."""

    def add(self, event: str, /, **members: Any) -> None:
        """Record an event and pass it to the listeners; members that are ``None`` are left out."""
        self.last = next(self._numbers)
        entry: Event = {"seq": self.last, "time": now(), "event": event}
        entry.update((n, encodable(value)) for n, value in members.items() if value is not None)
        self._events.append(entry)
        for listener in list(self._listeners):
            listener(entry)

    def since(self, seq: int) -> list[Event]:
        """Return the events after ``seq`` that are still in memory."""
        return [each for each in self._events if each["seq"] > seq]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each event from now on; return what ends that."""
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return leave
