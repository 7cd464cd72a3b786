"""Who is subscribed to what of one upstream: the first opens, the last closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.requests.calls import Calls
from mcpd.core.wire import envelope


class Task(msgspec.Struct, frozen=True):
    """A task of a modern server, by its id; a client that knows the id may subscribe to it."""

    id: str


Topic = str | Task
"""What can be followed: a resource, by its URI, or a task."""

Subscriber = int | tuple[int, bytes]
"""A session, by its id, or one listen of a session, by its key as well."""

Waiter = Callable[[Raw | bytes | None, Failure | None], None]
"""Called when a subscription stands: with the server's error, with a failure, or with neither."""


PARENT_CHARS: Final = 8192
"""Characters of the longest URI that is matched with those of its parts and parents."""


class Topics:
    """Which topics there are, so that those which cover another are found without a look at all.

    What covers a URI are that URI, and those of its beginnings in front of a slash.
    """

    def __init__(self) -> None:
        self._by_stem: dict[str, dict[str, None]] = {}
        """URIs without the slashes at their end, and the spellings of each."""

    def add(self, topic: Topic) -> None:
        """Take in a topic; harmless where it is known."""
        if isinstance(topic, str) and len(topic) <= PARENT_CHARS:
            self._by_stem.setdefault(topic.rstrip("/"), {})[topic] = None

    def discard(self, topic: Topic) -> None:
        """Take one out; harmless where it is not known."""
        if isinstance(topic, str) and len(topic) <= PARENT_CHARS:
            stem = topic.rstrip("/")
            spellings = self._by_stem.get(stem, {})
            spellings.pop(topic, None)
            if not spellings:
                self._by_stem.pop(stem, None)

    def parents(self, topic: Topic) -> Iterator[Topic]:
        """Return the URIs that a URI is a part of, the shortest first."""
        if isinstance(topic, Task) or len(topic) > PARENT_CHARS:
            return
        end = topic.find("/")
        while end >= 0:
            yield from self._by_stem.get(topic[:end], ())
            end = topic.find("/", end + 1)


class _Followed:
    def __init__(self) -> None:
        self.subscribers: dict[Subscriber, None] = {}  # in their order
        self.waiters: dict[Subscriber, list[Waiter]] = {}
        self.is_open = False  # as far as the process knows
        self.is_moving = False  # a request about it is on its way


class Subscriptions:
    """Counts subscribers by URI and brings the process to what is wanted, one step at a time.

    ``send`` asks the process to subscribe (``True``) or unsubscribe a URI, and has ``moved``
    called with what came of it. Requests about one URI never overlap.
    """

    def __init__(self, send: Callable[[Topic, bool], None]) -> None:
        self._send = send
        self._followed: dict[Topic, _Followed] = {}
        self._topics = Topics()
        self._of: dict[Subscriber, dict[Topic, None]] = {}

    def add(
        self, topic: Topic, subscriber: Subscriber, waiter: Waiter | None, *, is_up: bool
    ) -> None:
        """Subscribe somebody; ``waiter`` is called once the process has.

        Who has no waiter stays subscribed where no process comes for now.
        """
        followed = self._followed.get(topic)
        if followed is None:
            followed = self._followed[topic] = _Followed()
            self._topics.add(topic)
        followed.subscribers[subscriber] = None
        self._of.setdefault(subscriber, {})[topic] = None
        if followed.is_open and not followed.is_moving:
            if waiter is not None:
                waiter(None, None)
            return
        if waiter is not None:
            followed.waiters.setdefault(subscriber, []).append(waiter)
        if is_up:
            self._settle(topic, followed)

    def remove(self, topic: Topic, subscriber: Subscriber, *, is_up: bool) -> None:
        """Unsubscribe somebody; harmless where they are not subscribed."""
        followed = self._followed.get(topic)
        if followed is None:
            return
        self._unsubscribe(topic, followed, subscriber)
        for waiter in followed.waiters.pop(subscriber, ()):
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
        for own in (*self._topics.parents(topic), topic):
            followed = self._followed.get(own)
            if followed is not None:
                found |= followed.subscribers
        return found.keys()

    def of(self, subscriber: Subscriber) -> list[Topic]:
        """Return what somebody is subscribed to."""
        return list(self._of.get(subscriber, ()))

    def down(self) -> None:
        """Note that the process is gone: all subscriptions have to be opened again."""
        for topic, followed in list(self._followed.items()):
            followed.is_open = followed.is_moving = False
            self._forget(topic, followed)

    def fail(self, failure: Failure) -> None:
        """No process will come for those who wait: they are told, and not subscribed."""
        for topic, followed in list(self._followed.items()):
            waiters, followed.waiters = followed.waiters, {}
            for subscriber, own in waiters.items():
                self._unsubscribe(topic, followed, subscriber)
                for waiter in own:
                    waiter(None, failure)
            self._forget(topic, followed)

    def renew(self) -> None:
        """A new process is there: subscribe to what is wanted."""
        for topic, followed in list(self._followed.items()):
            self._settle(topic, followed)

    def moved(self, topic: Topic, wanted: bool, error: Raw | bytes | None) -> None:
        """The process has answered; ``error`` is its refusal."""
        followed = self._followed.get(topic)
        if followed is None:
            return
        followed.is_moving = False
        if error is None:
            followed.is_open = wanted
        if wanted:
            waiters, followed.waiters = followed.waiters, {}
            if error is not None:
                for subscriber in list(followed.subscribers):
                    self._unsubscribe(topic, followed, subscriber)
            for own in waiters.values():
                for waiter in own:
                    waiter(error, None)
        else:
            followed.is_open = False
        self._settle(topic, followed)
        self._forget(topic, followed)

    def __len__(self) -> int:
        return len(self._followed)

    def _unsubscribe(self, topic: Topic, followed: _Followed, subscriber: Subscriber) -> None:
        followed.subscribers.pop(subscriber, None)
        own = self._of.get(subscriber, {})
        own.pop(topic, None)
        if not own:
            self._of.pop(subscriber, None)

    def _settle(self, topic: Topic, followed: _Followed) -> None:
        wanted = bool(followed.subscribers)
        if not followed.is_moving and wanted != followed.is_open:
            followed.is_moving = True
            self._send(topic, wanted)

    def _forget(self, topic: Topic, followed: _Followed) -> None:
        if not (followed.subscribers or followed.waiters or followed.is_open or followed.is_moving):
            self._followed.pop(topic, None)
            self._topics.discard(topic)


def move_at_legacy(
    calls: Calls, topic: Topic, wanted: bool, moved: Callable[[Raw | bytes | None], None]
) -> None:
    """Subscribe a legacy process to a resource, or unsubscribe; ``moved`` gets its error if any."""
    if isinstance(topic, Task):
        moved(None)  # it has taken the place of a modern process, and reports no tasks
        return
    method = "resources/subscribe" if wanted else "resources/unsubscribe"
    params = b'{"uri":%b}' % envelope.quote(topic)
    calls.own_requests.ask(CLIENT_REQUESTS[method], params, lambda result, error: moved(error))
