"""Shell patterns for names of tools, matched as they are written or by what names look like."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Final

from mcpd.core.catalog.attacks.confusables import LONGEST, folded

_MOST_KNOWN: Final = 1000
"""Names that are not matched again: those of tools are few, but a client may make some up."""


class Patterns:
    """Case-sensitive shell patterns (``*``, ``?``, ``[a-z]``).

    With ``by_looks`` they also match a name that looks like one they match, and, since not all of
    it is looked at, each that is longer than 256 characters: for patterns that take rights away.
    """

    __slots__ = ("_folded", "_known", "_patterns")

    def __init__(self, patterns: Iterable[str], *, by_looks: bool = False) -> None:
        given = tuple(patterns)
        self._patterns: Final = tuple(map(_compiled, given))
        self._folded: Final = tuple(_compiled(folded(each)) for each in given if by_looks)
        self._known: dict[str, bool] = {}

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._patterns)

    def matches(self, name: str) -> bool:
        """Tell whether one of them matches a name."""
        found = self._known.get(name)
        if found is None:
            found = self._matches(name)
            if len(name) <= LONGEST:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[name] = found
        return found

    def _matches(self, name: str) -> bool:
        if any(pattern.match(name) for pattern in self._patterns):
            return True
        if not self._folded:
            return False
        looks = folded(name)
        return len(name) > LONGEST or any(pattern.match(looks) for pattern in self._folded)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
