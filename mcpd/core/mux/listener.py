"""One open ``subscriptions/listen`` of a modern client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.mcp import modern
from mcpd.core.mux.changes import Changes
from mcpd.core.mux.subscriptions import Topic
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire.memory import Kept

_FLAGS: Final = {
    Kind.TOOLS: "tools",
    Kind.PROMPTS: "prompts",
    Kind.RESOURCES: "resources",
    Kind.TEMPLATES: "resources",
}


class Listener:
    """What a client wants to hear, and as much of it as it can be told.

    ``ident`` is the id of its request as it came, which tags all that it hears.
    """

    def __init__(self, ident: bytes, key: bytes, wanted: modern.Listen, kept: Kept) -> None:
        self.ident = ident
        self.key = key
        self.kept = kept
        """What is kept of its request; it counts while the listen is open."""
        self.wanted = wanted
        self.honoured = modern.Listen()
        """What its client was, or will be, told that it hears."""
        self.is_acknowledged = False
        self.owners: dict[Topic, str] = {}
        """The server of each resource and task that it follows."""
        self.places: dict[Topic, Upstream] = {}
        """Where it is subscribed to each of these."""
        self.awaited: set[Topic] = set()
        """Those of them without which it cannot be acknowledged yet."""
        self.changes = Changes()
        self.leave: Callable[[], object] | None = None
        """Takes it out of where it waits for a start or for lists."""
        self.missed_changes: dict[Kind, None] = {}
        self.missed_updates: dict[Topic, Raw] = {}
        """What it is to hear once it is acknowledged."""

    def hears(self, kind: Kind) -> bool:
        """Tell whether it is for changes of a list."""
        return bool(getattr(self.honoured, _FLAGS[kind]))
