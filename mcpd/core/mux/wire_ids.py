"""Ids of ours, as servers give them back."""

from __future__ import annotations

from msgspec import UNSET

from mcpd.core.wire import envelope


def wire_id_of(raw: envelope.Bytes) -> int | None:
    """Read an id of ours; ``None`` for anything else."""
    if raw is UNSET:
        return None
    digits = bytes(raw)
    if not digits.isdigit():
        digits = digits.strip(b'"')  # some servers make strings of ids
    return int(digits) if digits.isdigit() and len(digits) < 20 else None
