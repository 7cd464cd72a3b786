"""The stream of events: numbered, the newest kept, each told to those who listen."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from mcpd.logfiles.line import now

KEPT = 1000

Event = dict[str, Any]
Listener = Callable[[Event], None]


class Journal:
    """What happened, as ``mcpd/events`` tells it.

    Invariant: numbers grow by one, and a listener gets each event after its ``since`` once.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._listeners: list[Listener] = []
        self.last = 0
        """The number of the newest event."""

    def add(self, event: str, /, **members: Any) -> None:
        """Record that something happened; members that are ``None`` are left out."""
        self.last = next(self._numbers)
        entry: Event = {"seq": self.last, "time": now(), "event": event}
        entry.update((name, value) for name, value in members.items() if value is not None)
        self._events.append(entry)
        for listener in list(self._listeners):
            listener(entry)

    def since(self, seq: int) -> list[Event]:
        """Return what is kept of the events after ``seq``."""
        return [each for each in self._events if each["seq"] > seq]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each event from now on; return what ends that."""
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return leave
