"""What the audit's thread is told by the daemon, and what it reports to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mcpd.audit.payloads import Recorded


class Settings(NamedTuple):
    """What the configuration says of the audit."""

    days: int
    most_bytes: int
    recorded: Mapping[str, Recorded] = {}
    """Servers of whose calls more than sizes and hashes is kept."""


class Reports(NamedTuple):
    """What the thread reports; each is called in the thread."""

    trouble: Callable[[str | None, float], object]
    """Takes why nothing is written and since how many seconds; ``None`` once it is again."""

    gap: Callable[[int, int], object]
    """Takes how many rows, and of how many calls the hashes, are missing."""

    set_aside: Callable[[str, str], object]
    """Takes the path that a broken file was moved to, and what was wrong with it."""
