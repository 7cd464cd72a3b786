"""The revisions of MCP that mcpd supports, their order and their era."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Era(Enum):
    """A family of revisions (2026-07-28, basic/versioning)."""

    LEGACY = "legacy"
    MODERN = "modern"


LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Oldest first: the revisions that open a session with a handshake."""

MODERN: Final = ("2026-07-28",)
"""Oldest first: the revisions whose requests each carry their own version and capabilities."""

NEWEST_LEGACY: Final = LEGACY[-1]
NEWEST_MODERN: Final = MODERN[-1]
HAS_BATCHES: Final = "2025-03-26"
"""The one revision in which messages may come in arrays."""

MAY_OMIT_ID: Final = "2025-11-25"
"""From this revision on an error for an unknown request has no id; before, its id is null."""


def era_of(version: str) -> Era:
    """Return the era of a revision; of an unknown one, the legacy era."""
    return Era.MODERN if version in MODERN else Era.LEGACY


def negotiate(asked: str | None, newest: str) -> str:
    """Return the revision of a session whose client asks for ``asked`` at a server of ``newest``.

    It is never newer than the server's, which lacks the newer features. A modern server counts as
    the newest legacy one.
    """
    newest = newest if newest in LEGACY else NEWEST_LEGACY
    is_known = asked in LEGACY and LEGACY.index(asked) <= LEGACY.index(newest)
    return asked if asked is not None and is_known else newest
