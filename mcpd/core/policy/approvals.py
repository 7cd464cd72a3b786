"""Which calls a person is asked about, compiled for a server and a profile."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Final, Literal

from mcpd.core.catalog.confusables import LONGEST, folded

Mode = Literal["auto", "ask", "trusted", "writes"]
"""No call; each; all but those of ``trusted``; all but those that say ``readOnlyHint``."""

_REASONS: Final = {
    "ask": 'each call of it is asked about (approval = "ask")',
    "trusted": 'it is not among the trusted tools (approval = "trusted")',
    "writes": 'it does not say that it only reads (approval = "writes")',
}


class Asks:
    """Which tools of a server are asked about, for those in one profile, or in none.

    ``ask`` is stronger than ``trusted``, which is stronger than the mode. The mode of a profile
    comes on top of all three: it can only have more asked.
    """

    __slots__ = ("_ask", "_mode", "_profile", "_trusted", "needs_hints")

    def __init__(
        self,
        mode: Mode,
        *,
        trusted: Iterable[str] = (),
        ask: Iterable[str] = (),
        profile: Mode = "auto",
    ) -> None:
        """Take patterns for a server's own names.

        Those of ``trusted`` match exactly. Those of ``ask`` also match what looks like it: a name
        can lose rights by its looks, and never win some.
        """
        self._mode = mode
        self._profile = profile
        self._trusted = tuple(map(_compiled, trusted))
        self._ask = tuple(_compiled(folded(pattern)) for pattern in ask)
        self.needs_hints: Final = "writes" in (mode, profile)
        """Whether it matters what a tool says of itself."""

    @classmethod
    def of(
        cls,
        mode: Mode,
        *,
        trusted: Iterable[str] = (),
        ask: Iterable[str] = (),
        profile: Mode = "auto",
    ) -> Asks | None:
        """Return a table, ``None`` where nothing is asked about."""
        asked = tuple(ask)
        if mode == "auto" and profile == "auto" and not asked:
            return None
        return cls(mode, trusted=trusted, ask=asked, profile=profile)

    def reason(self, tool: str, *, is_read_only: bool) -> str | None:
        """Return why a call of this tool is asked about, ``None`` where it is not."""
        is_named = len(tool) > LONGEST or _matches(self._ask, folded(tool))
        if self._ask and is_named:  # of a longer name not all is looked at
            return "its name is among those that are asked about (ask)"
        is_trusted = _matches(self._trusted, tool)
        for mode, spares_trusted in ((self._mode, True), (self._profile, False)):
            spared = (
                mode == "auto"
                or (mode == "writes" and is_read_only)
                or (is_trusted and (spares_trusted or mode == "trusted"))
            )
            if not spared:
                of_profile = "" if spares_trusted else ", in its profile"
                return _REASONS[mode] + of_profile
        return None


def _matches(patterns: Iterable[re.Pattern[str]], name: str) -> bool:
    return any(pattern.match(name) for pattern in patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
