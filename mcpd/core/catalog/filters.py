"""Allow and deny patterns that select the tools of a server."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from mcpd.core.catalog.model import Item, Listing


class Filter:
    """Case-sensitive shell patterns (``*``, ``?``, ``[a-z]``) for a server's own names.

    A name is admitted if a pattern of ``allow`` matches it and none of ``deny`` does.
    """

    ALL: ClassVar[Filter]
    """Admits every name."""

    def __init__(
        self,
        allow: Sequence[str] = ("*",),
        deny: Sequence[str] = (),
        *,
        within: Sequence[str] = (),
        read_only: bool = False,
    ) -> None:
        """Take the patterns; ``within`` are further ones of which a name must match one, if any."""
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self.within = tuple(within)
        self.read_only = read_only
        """Whether only tools are shown that say ``readOnlyHint``."""
        self.admits_all = "*" in self.allow and not (self.deny or self.within or read_only)
        """Whether everything is shown."""
        self._allow = _compiled(self.allow)
        self._deny = _compiled(self.deny)
        self._within = _compiled(self.within)

    def narrowed(self, patterns: Sequence[str], *, read_only: bool) -> Filter:
        """Return a filter that shows less: what one of ``patterns`` matches, if there are any."""
        if not (patterns or read_only):
            return self
        return Filter(self.allow, self.deny, within=patterns, read_only=read_only)

    def admits(self, name: str) -> bool:
        """Tell whether this name is shown, whatever the tool says of itself."""
        if self.admits_all:
            return True
        return (
            any(pattern.match(name) for pattern in self._allow)
            and not any(pattern.match(name) for pattern in self._deny)
            and (not self._within or any(pattern.match(name) for pattern in self._within))
        )

    def shows(self, item: Item) -> bool:
        """Tell whether this item is shown."""
        return self.admits(item.identity) and (not self.read_only or item.read_only)

    def apply(self, listing: Listing) -> Listing:
        """Return the list with the admitted entries; the same object if that is all of them."""
        if self.admits_all:
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
        return (self.allow, self.deny, self.within, self.read_only)


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(fnmatch.translate(pattern)) for pattern in patterns)


Filter.ALL = Filter()
