"""Who is subscribed to which resource of one upstream: the first opens, the last closes."""

from __future__ import annotations

from collections.abc import Callable, KeysView

from msgspec import Raw

from mcpd.core.facts import Failure

Subscriber = int | tuple[int, bytes]
"""A session, by its id, or one listen of a session, by its key as well."""

Waiter = Callable[[Raw | bytes | None, Failure | None], None]
"""Called when a subscription stands: with the server's error, with a failure, or with neither."""


class _Resource:
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

    def __init__(self, send: Callable[[str, bool], None]) -> None:
        self._send = send
        self._resources: dict[str, _Resource] = {}

    def add(self, uri: str, subscriber: Subscriber, waiter: Waiter | None, *, is_up: bool) -> None:
        """Subscribe somebody; ``waiter`` is called once the process has.

        Who has no waiter stays subscribed where no process comes for now.
        """
        resource = self._resources.setdefault(uri, _Resource())
        resource.subscribers[subscriber] = None
        if resource.is_open and not resource.is_moving:
            if waiter is not None:
                waiter(None, None)
            return
        if waiter is not None:
            resource.waiters.append((subscriber, waiter))
        if is_up:
            self._settle(uri, resource)

    def remove(self, uri: str, subscriber: Subscriber, *, is_up: bool) -> None:
        """Unsubscribe somebody; harmless where they are not subscribed."""
        resource = self._resources.get(uri)
        if resource is None:
            return
        resource.subscribers.pop(subscriber, None)
        waiters = resource.waiters
        mine = [waiter for own, waiter in waiters if own == subscriber]
        resource.waiters = [(own, waiter) for own, waiter in waiters if own != subscriber]
        for waiter in mine:
            waiter(None, None)
        if is_up:
            self._settle(uri, resource)
        self._forget(uri, resource)

    def leave(self, subscriber: Subscriber, *, is_up: bool) -> None:
        """Unsubscribe somebody from everything."""
        for uri in self.of(subscriber):
            self.remove(uri, subscriber, is_up=is_up)

    def subscribers(self, uri: str) -> KeysView[Subscriber]:
        """Return who wants an update of ``uri``: subscribed to it or to a parent of it."""
        found: dict[Subscriber, None] = {}
        for own, resource in self._resources.items():
            if uri == own or uri.startswith(own.rstrip("/") + "/"):
                found |= resource.subscribers
        return found.keys()

    def of(self, subscriber: Subscriber) -> list[str]:
        """Return what somebody is subscribed to."""
        return [uri for uri, r in self._resources.items() if subscriber in r.subscribers]

    def down(self) -> None:
        """The process is gone: nothing is open any more, everything wanted is to be renewed."""
        for uri, resource in list(self._resources.items()):
            resource.is_open = resource.is_moving = False
            self._forget(uri, resource)

    def fail(self, failure: Failure) -> None:
        """No process will come for those who wait: they are told, and not subscribed."""
        for uri, resource in list(self._resources.items()):
            waiters, resource.waiters = resource.waiters, []
            for subscriber, waiter in waiters:
                resource.subscribers.pop(subscriber, None)
                waiter(None, failure)
            self._forget(uri, resource)

    def renew(self) -> None:
        """A new process is there: subscribe to what is wanted."""
        for uri, resource in list(self._resources.items()):
            self._settle(uri, resource)

    def moved(self, uri: str, wanted: bool, error: Raw | bytes | None) -> None:
        """The process has answered; ``error`` is its refusal."""
        resource = self._resources.get(uri)
        if resource is None:
            return
        resource.is_moving = False
        if error is None:
            resource.is_open = wanted
        if wanted:
            waiters, resource.waiters = resource.waiters, []
            for subscriber, waiter in waiters:
                if error is not None:
                    resource.subscribers.pop(subscriber, None)
                waiter(error, None)
            if error is not None:
                resource.subscribers.clear()
        else:
            resource.is_open = False
        self._settle(uri, resource)
        self._forget(uri, resource)

    def __len__(self) -> int:
        return len(self._resources)

    def _settle(self, uri: str, resource: _Resource) -> None:
        wanted = bool(resource.subscribers)
        if not resource.is_moving and wanted != resource.is_open:
            resource.is_moving = True
            self._send(uri, wanted)

    def _forget(self, uri: str, resource: _Resource) -> None:
        if not (resource.subscribers or resource.waiters or resource.is_open or resource.is_moving):
            self._resources.pop(uri, None)
