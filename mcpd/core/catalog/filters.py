"""Which of a server's tools are shown: allow and deny patterns."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from mcpd.core.catalog.model import Listing


class Filter:
    """Patterns as in a shell (``*``, ``?``, ``[a-z]``), case-sensitive, of a server's own names.

    A name is shown when a pattern of ``allow`` matches it and none of ``deny`` does.
    """

    ALL: ClassVar[Filter]
    """Shows everything, at no cost."""

    def __init__(self, allow: Sequence[str] = ("*",), deny: Sequence[str] = ()) -> None:
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self.admits_all = "*" in self.allow and not self.deny
        """Whether every name is shown."""
        self._allow = _compiled(self.allow)
        self._deny = _compiled(self.deny)

    def admits(self, name: str) -> bool:
        """Tell whether this name is shown."""
        if self.admits_all:
            return True
        allowed = any(pattern.match(name) for pattern in self._allow)
        return allowed and not any(pattern.match(name) for pattern in self._deny)

    def apply(self, listing: Listing) -> Listing:
        """Return the list without what is not shown; the same object where nothing goes."""
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
