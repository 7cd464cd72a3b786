"""Who is subscribed to what of one upstream: the first opens, the last closes."""

from __future__ import annotations

from collections.abc import Callable, KeysView

import msgspec
from msgspec import Raw

from mcpd.core.facts import Failure


class Task(msgspec.Struct, frozen=True):
    """A task of a modern server, by its id; whoever knows that may hear of it."""

    id: str


Topic = str | Task
"""What can be followed: a resource, by its URI, or a task."""

Subscriber = int | tuple[int, bytes]
"""A session, by its id, or one listen of a session, by its key as well."""

Waiter = Callable[[Raw | bytes | None, Failure | None], None]
"""Called when a subscription stands: with the server's error, with a failure, or with neither."""


def covers(own: Topic, topic: Topic) -> bool:
    """Tell whether who follows ``own`` hears of ``topic``: it is that, or a part of it."""
    if isinstance(own, Task) or isinstance(topic, Task):
        return own == topic
    return topic == own or topic.startswith(own.rstrip("/") + "/")


class _Followed:
    def __init__(self) -> None:
        self.subscribers: dict[Subscriber, None] = {}  # in their order
        self.waiters: list[tuple[Subscriber, Waiter]] = []
        self.is_open = False  # as far as the process knows
        self.is_moving = False  # a request about it is on its way


class Subscriptions:
    """Counts subscribers by URI and brings the process to what is wanted, one step at a time.

    ``send`` asks the process to subscribe (``True``) or unsubscribe a URI, and has ``moved``
    called with what came of it. Requests about one URI never overlap.
    """

    def __init__(self, send: Callable[[Topic, bool], None]) -> None:
        self._send = send
        self._topics: dict[Topic, _Followed] = {}

    def add(
        self, topic: Topic, subscriber: Subscriber, waiter: Waiter | None, *, is_up: bool
    ) -> None:
        """Subscribe somebody; ``waiter`` is called once the process has.

        Who has no waiter stays subscribed where no process comes for now.
        """
        followed = self._topics.setdefault(topic, _Followed())
        followed.subscribers[subscriber] = None
        if followed.is_open and not followed.is_moving:
            if waiter is not None:
                waiter(None, None)
            return
        if waiter is not None:
            followed.waiters.append((subscriber, waiter))
        if is_up:
            self._settle(topic, followed)

    def remove(self, topic: Topic, subscriber: Subscriber, *, is_up: bool) -> None:
        """Unsubscribe somebody; harmless where they are not subscribed."""
        followed = self._topics.get(topic)
        if followed is None:
            return
        followed.subscribers.pop(subscriber, None)
        waiters = followed.waiters
        mine = [waiter for own, waiter in waiters if own == subscriber]
        followed.waiters = [(own, waiter) for own, waiter in waiters if own != subscriber]
        for waiter in mine:
            waiter(None, None)
        if is_up:
            self._settle(topic, followed)
        self._forget(topic, followed)

    def leave(self, subscriber: Subscriber, *, is_up: bool) -> None:
        """Unsubscribe somebody from everything."""
        for topic in self.of(subscriber):
            self.remove(topic, subscriber, is_up=is_up)

    def subscribers(self, topic: Topic) -> KeysView[Subscriber]:
        """Return who wants an update: subscribed to it or, for a resource, to a parent of it."""
        found: dict[Subscriber, None] = {}
        for own, followed in self._topics.items():
            if covers(own, topic):
                found |= followed.subscribers
        return found.keys()

    def of(self, subscriber: Subscriber) -> list[Topic]:
        """Return what somebody is subscribed to."""
        return [topic for topic, r in self._topics.items() if subscriber in r.subscribers]

    def down(self) -> None:
        """The process is gone: nothing is open any more, everything wanted is to be renewed."""
        for topic, followed in list(self._topics.items()):
            followed.is_open = followed.is_moving = False
            self._forget(topic, followed)

    def fail(self, failure: Failure) -> None:
        """No process will come for those who wait: they are told, and not subscribed."""
        for topic, followed in list(self._topics.items()):
            waiters, followed.waiters = followed.waiters, []
            for subscriber, waiter in waiters:
                followed.subscribers.pop(subscriber, None)
                waiter(None, failure)
            self._forget(topic, followed)

    def renew(self) -> None:
        """A new process is there: subscribe to what is wanted."""
        for topic, followed in list(self._topics.items()):
            self._settle(topic, followed)

    def moved(self, topic: Topic, wanted: bool, error: Raw | bytes | None) -> None:
        """The process has answered; ``error`` is its refusal."""
        followed = self._topics.get(topic)
        if followed is None:
            return
        followed.is_moving = False
        if error is None:
            followed.is_open = wanted
        if wanted:
            waiters, followed.waiters = followed.waiters, []
            for subscriber, waiter in waiters:
                if error is not None:
                    followed.subscribers.pop(subscriber, None)
                waiter(error, None)
            if error is not None:
                followed.subscribers.clear()
        else:
            followed.is_open = False
        self._settle(topic, followed)
        self._forget(topic, followed)

    def __len__(self) -> int:
        return len(self._topics)

    def _settle(self, topic: Topic, followed: _Followed) -> None:
        wanted = bool(followed.subscribers)
        if not followed.is_moving and wanted != followed.is_open:
            followed.is_moving = True
            self._send(topic, wanted)

    def _forget(self, topic: Topic, followed: _Followed) -> None:
        if not (followed.subscribers or followed.waiters or followed.is_open or followed.is_moving):
            self._topics.pop(topic, None)
