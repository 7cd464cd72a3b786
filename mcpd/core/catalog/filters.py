"""Which tools, prompts and resources of a server are shown, by patterns and by scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from mcpd.core.catalog.model import Item, Kind, Listing
from mcpd.core.catalog.patterns import Patterns
from mcpd.principal import EVERYTHING, Scope

_RESOURCES: Final = frozenset((Kind.RESOURCES, Kind.TEMPLATES))


class Filter:
    """Case-sensitive shell patterns (``*``, ``?``, ``[a-z]``) for a server's own names.

    A tool is admitted if a pattern of ``allow`` matches its name and none of ``deny`` does, and if
    the scope has it. ``deny`` also matches what looks like it: a name can lose rights by its looks,
    and never win some.
    """

    ALL: ClassVar[Filter]
    """Admits every name."""

    def __init__(
        self,
        allow: Sequence[str] = ("*",),
        deny: Sequence[str] = (),
        *,
        server: str = "",
        scope: Scope = EVERYTHING,
    ) -> None:
        """Take the patterns; ``scope`` is what a principal may use, ``server`` whose tools."""
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self._server = server
        self._scope = scope
        self.read_only: Final = scope.read_only
        """Whether only tools are shown that say ``readOnlyHint``."""
        self.hidden: Final = _hidden(scope, server)
        """Lists of which nothing is shown."""
        self.hides_tools: Final = Kind.TOOLS in self.hidden
        self.admits_all = "*" in self.allow and not (
            self.deny or scope.tools or scope.read_only or self.hides_tools
        )
        """Whether every tool is shown."""
        self._allow = Patterns(self.allow)
        self._deny = Patterns(self.deny, by_looks=True)
        self._groups = tuple(map(Patterns, scope.tools))

    def within(self, scope: Scope, server: str) -> Filter:
        """Return a filter that shows what a principal with this scope may use of a server."""
        return (
            self
            if scope is EVERYTHING
            else Filter(self.allow, self.deny, server=server, scope=scope)
        )

    def admits(self, name: str) -> bool:
        """Tell whether a tool of this name is shown, whatever it says of itself."""
        if self.admits_all:
            return True
        if self.hides_tools or not self._allow.matches(name) or self._deny.matches(name):
            return False
        for group in self._groups:
            if not group.matches(name) and not group.matches(f"{self._server}.{name}"):
                return False
        return True

    def may_show(self, name: str) -> bool:
        """Tell whether a tool of this name is shown once somebody has approved what it is."""
        return self.admits(name) and not self.read_only

    def shows(self, item: Item) -> bool:
        """Tell whether this tool is shown."""
        return self.admits(item.identity) and (not self.read_only or item.read_only)

    def apply(self, listing: Listing) -> Listing:
        """Return the list with the admitted entries; the same object if that is all of them."""
        if listing.kind in self.hidden:
            return Listing.empty(listing.kind)
        if listing.kind is not Kind.TOOLS or self.admits_all:
            return listing
        shown = [item for item in listing.items if self.shows(item)]
        return listing if len(shown) == len(listing.items) else Listing(listing.kind, shown)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (self.allow, self.deny, self._server, self._scope)


def _hidden(scope: Scope, server: str) -> frozenset[Kind]:
    if not scope.has(server):
        return frozenset(Kind)
    hidden = frozenset[Kind]() if scope.resources else _RESOURCES
    return hidden if scope.prompts else hidden | {Kind.PROMPTS}


Filter.ALL = Filter()
