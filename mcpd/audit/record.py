"""The words of the audit that are numbers in its file, and where its files are."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

OUTCOMES: Final = ("ok", "error", "denied", "cancelled", "timeout", "crashed")
"""How a call can end; a number in the file is a place in this row."""

FLAGS: Final = ("retried", "sanitised", "flagged", "late_yes", "queued")
"""What else is noted of a call; the first is bit 0."""

GAP: Final = "audit.gap"
"""The event that says how many rows are missing."""

PRUNED: Final = "audit.pruned"
"""The event that says how many rows a person removed."""

GROUPS: Final = ("server", "tool", "client", "day")
"""What calls can be counted by."""

FILE_NAME: Final = "audit.db"
KEY_NAME: Final = "audit.key"
BAD: Final = f"{FILE_NAME}.bad-"
"""How the name of a file begins that was set aside."""

_ENDS: Final = {
    "answered": "ok",
    "cancelled": "cancelled",
    "timed_out": "timeout",
    "lost": "crashed",
}
_KINDS: Final = {
    "denied": "denied",
    "approval_required": "denied",
    "rate_limited": "denied",
    "call_timeout": "timeout",
    "server_crashed": "crashed",
}


@lru_cache(128)
def outcome_of(end: str, kind: str | None) -> int:
    """Return the number of an outcome; ``end`` is how the core says that a call ended.

    ``kind`` is the kind of mcpd's error, ``None`` where there is none.
    """
    found = None if kind is None else _KINDS.get(kind)
    return OUTCOMES.index(found or _ENDS.get(end, "error"))


def flags_of(bits: int) -> list[str]:
    """Return the names of flags."""
    return [name for bit, name in enumerate(FLAGS) if bits >> bit & 1]


def path_in(state_dir: str) -> str:
    """Return the path of the file."""
    return os.path.join(state_dir, FILE_NAME)
