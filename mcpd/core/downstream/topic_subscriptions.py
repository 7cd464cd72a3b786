"""Where listens follow resources and tasks: at the process that speaks to their session."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry, Sharing
from mcpd.core.state.client_subscription import ClientSubscription
from mcpd.core.state.session import Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.phase import Phase
from mcpd.core.upstream.subscriptions import Topic
from mcpd.core.upstream.upstream import Upstream

Followed = Callable[[Session, ClientSubscription, Topic, Raw | bytes | None, Failure | None], None]
"""Called once for what is awaited: with the server's error, with a failure, or with neither."""


class TopicSubscriptions:
    """Subscribes listens, and takes them along when their servers move.

    To listen is no use of a server that keeps it running: a process is started for what is
    awaited, and for what is taken along from one that ran.
    """

    def __init__(self, state: MuxState, slots: Slots, followed: Followed) -> None:
        self._state = state
        self._slots = slots
        self._followed = followed

    def place(self, session: Session, entry: Entry) -> Upstream:
        """Return where a server speaks to a session."""
        if entry.sharing is Sharing.SHARED:
            return self._slots.control_upstream(entry)
        return self._slots.upstream_for(session, entry)

    def begin(
        self, session: Session, listener: ClientSubscription, topic: Topic, entry: Entry
    ) -> None:
        """Follow something that is awaited."""
        listener.owners[topic] = entry.name
        self._subscribe(session, listener, topic, self.place(session, entry))

    def move(
        self, session: Session, listener: ClientSubscription, topic: Topic, gone: list[Upstream]
    ) -> None:
        """Have something followed where its server is now, if it is somewhere."""
        state, server = self._state, listener.owners[topic]
        before = listener.slots.get(topic)
        entry = state.entries.get(server)
        why = state.not_found(server) if entry is None else entry.unavailable
        place = None if entry is None or why is not None else self.place(session, entry)
        if place is before:
            return
        listener.slots.pop(topic, None)
        if place is not None:
            self._subscribe(session, listener, topic, place)
            was_up = before is not None and before.phase is not Phase.DOWN
            if was_up and not place.is_ready and server not in state.held:
                place.calls.start_wait.when_ready(_nobody)
        elif topic in listener.awaited:
            self._followed(session, listener, topic, None, why)
        if before is not None:
            is_up = before.is_ready and before not in gone
            before.subscriptions.remove(topic, (session.id, listener.key), is_up=is_up)

    def end(self, session: Session, listener: ClientSubscription) -> None:
        """Follow nothing any more."""
        for topic, place in listener.slots.items():
            place.subscriptions.remove(topic, (session.id, listener.key), is_up=place.is_ready)

    def _subscribe(
        self, session: Session, listener: ClientSubscription, topic: Topic, place: Upstream
    ) -> None:
        listener.slots[topic] = place
        is_awaited = topic in listener.awaited

        def told(error: Raw | bytes | None, failure: Failure | None) -> None:
            if not listener.is_over and listener.slots.get(topic) is place:
                self._followed(session, listener, topic, error, failure)

        who = (session.id, listener.key)
        place.subscriptions.add(topic, who, told if is_awaited else None, is_up=place.is_ready)
        if is_awaited and not place.is_ready:
            place.calls.start_wait.when_ready(_nobody)


def _nobody(failure: Failure | None) -> None:
    """Nobody waits for the process: it is told what is followed as soon as it is there."""
