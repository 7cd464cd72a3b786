"""Which calls a person is asked about, compiled for a server and a profile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from mcpd.core.catalog.patterns import Patterns

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
        self._trusted = Patterns(trusted)
        self._ask = Patterns(ask, by_looks=True)
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
        if self._ask.matches(tool):
            return "its name is among those that are asked about (ask)"
        is_trusted = self._trusted.matches(tool)
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
