"""One open ``subscriptions/listen`` of a modern client."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.facts import Failure
from mcpd.core.interface.commands import ToSession
from mcpd.core.interface.context import Context
from mcpd.core.interface.failures import MOST_FOLLOWED
from mcpd.core.mcp.listen import Listen, acknowledgement_params, with_subscription_id
from mcpd.core.state.change_throttle import ChangeThrottle
from mcpd.core.upstream.subscriptions import Task, Topic, Topics
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.core.wire.memory import RequestMemory
from mcpd.ids import SessionId

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_UPDATED: Final = "notifications/resources/updated"
_TASKS: Final = "notifications/tasks"

_FLAGS: Final = {
    Kind.TOOLS: "tools",
    Kind.PROMPTS: "prompts",
    Kind.RESOURCES: "resources",
    Kind.TEMPLATES: "resources",
}


class ClientSubscription:
    """What a client wants to hear, and as much of it as it can be told.

    ``ident`` is the id of its request as it came, which tags all that it hears.
    """

    def __init__(
        self,
        ctx: Context,
        session: SessionId,
        ident: bytes,
        key: bytes,
        wanted: Listen,
        kept: RequestMemory,
        refused: Callable[[Failure], None],
    ) -> None:
        """``refused`` ends it, and answers its client with a failure."""
        self._ctx = ctx
        self.session = session
        self.refuse = refused
        self.ident = ident
        self.key = key
        self.kept = kept
        """What is kept of its request; it counts while the listen is open."""
        self.wanted = wanted
        self.honoured = Listen()
        """What its client was, or will be, told that it hears."""
        self.is_acknowledged = False
        self.owners: dict[Topic, str] = {}
        """The server of each resource and task that it follows."""
        self.slots: dict[Topic, Upstream] = {}
        """Where it is subscribed to each of these."""
        self.awaited: set[Topic] = set()
        """Those of them without which it cannot be acknowledged yet."""
        self.changes = ChangeThrottle()
        self.is_over = False
        """Whether it has ended, or was refused."""
        self.leave: Callable[[], object] | None = None
        """Takes it out of where it waits for a start or for lists."""
        self.missed_changes: dict[Kind, None] = {}
        self.missed_updates: dict[Topic, Raw] = {}
        """What it is to hear once it is acknowledged."""

    def hears(self, kind: Kind) -> bool:
        """Tell whether it is for changes of a list."""
        return bool(getattr(self.honoured, _FLAGS[kind]))

    def tell_change(self, kind: Kind) -> None:
        """Tell its client that a list changed, once it is acknowledged; not too often."""
        if self.is_acknowledged:
            method = kind.notification
            told = with_subscription_id(None, self.ident)
            self.changes.tell(self._ctx, method, partial(self._notify, method, told))
        else:
            self.missed_changes[kind] = None

    def tell_update(self, topic: Topic, params: Raw) -> None:
        """Tell its client that a resource or a task changed, once it is acknowledged."""
        if self.is_acknowledged:
            method = _TASKS if isinstance(topic, Task) else _UPDATED
            self._notify(method, with_subscription_id(params, self.ident))
        else:
            missed = self.missed_updates
            before = missed.get(topic, b"")
            if len(missed) < MOST_FOLLOWED and self.kept.grow(len(params) - len(before)):
                missed[topic] = params

    def acknowledge(self) -> None:
        """Tell its client what it hears from now on, and what changed before."""
        self.is_acknowledged = True
        params = acknowledgement_params(self.ident, self.honoured)
        line = envelope.notification(envelope.quote(_ACKNOWLEDGED), params)
        # a slow client loses others, not this
        self._ctx.emit(ToSession(self.session, line, request=self.key))
        changes, self.missed_changes = self.missed_changes, {}
        for kind in changes:
            self.tell_change(kind)
        updates, self.missed_updates = self.missed_updates, {}
        self.kept.add(-sum(map(len, updates.values())))
        if updates:
            followed = Topics()
            for own in self.owners:
                followed.add(own)
        for topic, told in updates.items():
            if topic in self.owners or any(followed.parents(topic)):  # else it was refused
                self.tell_update(topic, told)

    def _notify(self, method: str, params: bytes) -> None:
        line = envelope.notification(envelope.quote(method), params)
        self._ctx.emit(ToSession(self.session, line, is_notification=True, request=self.key))
