"""Known revisions of MCP, their order and their era."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Era(Enum):
    """Which family of revisions a peer speaks (2026-07-28, basic/versioning)."""

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
"""From here on an error whose request is unknown has no id at all; before, the id is null."""


def era_of(version: str) -> Era:
    """Return the era that a revision is of; of one that is unknown, the first."""
    return Era.MODERN if version in MODERN else Era.LEGACY


def negotiate(asked: str | None, newest: str) -> str:
    """Return the revision for a session that asks for ``asked`` in front of a server at ``newest``.

    Never newer than the server's: the client would rely on what cannot come. One without a
    handshake is as good as the newest that has one.
    """
    newest = newest if newest in LEGACY else NEWEST_LEGACY
    is_known = asked in LEGACY and LEGACY.index(asked) <= LEGACY.index(newest)
    return asked if asked is not None and is_known else newest
