"""What a server may be called."""

from __future__ import annotations

NAME_LENGTH_MAX = 200


def name_fault(name: str) -> str | None:
    """Return what is wrong with a server's name, or ``None`` if it is valid."""
    if not 1 <= len(name) <= NAME_LENGTH_MAX:
        return f"expected a name of 1 to {NAME_LENGTH_MAX} characters"
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in name):
        return "expected a name without control characters"
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "expected a name of whole characters (it has half of a surrogate pair)"
    return None
