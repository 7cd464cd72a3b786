"""Allow and deny patterns that select the tools of a server."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from mcpd.core.catalog.model import Listing


class Filter:
    """Case-sensitive shell patterns (``*``, ``?``, ``[a-z]``) for a server's own names.

    A name is admitted if a pattern of ``allow`` matches it and none of ``deny`` does.
    """

    ALL: ClassVar[Filter]
    """Admits every name."""

    def __init__(self, allow: Sequence[str] = ("*",), deny: Sequence[str] = ()) -> None:
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self.admits_all = "*" in self.allow and not self.deny
        """Whether every name is admitted."""
        self._allow = _compiled(self.allow)
        self._deny = _compiled(self.deny)

    def admits(self, name: str) -> bool:
        """Tell whether a name is admitted."""
        if self.admits_all:
            return True
        allowed = any(pattern.match(name) for pattern in self._allow)
        return allowed and not any(pattern.match(name) for pattern in self._deny)

    def apply(self, listing: Listing) -> Listing:
        """Return the list with the admitted entries; the same object if that is all of them."""
        if self.admits_all:
            return listing
        shown = [item for item in listing.items if self.admits(item.identity)]
        return listing if len(shown) == len(listing.items) else Listing(listing.kind, shown)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return (self.allow, self.deny) == (other.allow, other.deny)

    def __hash__(self) -> int:
        return hash((self.allow, self.deny))


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(fnmatch.translate(pattern)) for pattern in patterns)


Filter.ALL = Filter()
