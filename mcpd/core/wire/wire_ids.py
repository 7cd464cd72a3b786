"""Numbers of ours, as servers give them back: ids and progress tokens."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from msgspec import UNSET

from mcpd.core.wire import envelope

_NUMBER: Final = re.compile(rb"[0-9]{1,32}(?:\.[0-9]{1,32})?(?:[eE][+-]?[0-9]{1,2})?\Z")
_MOST: Final = 10**19


def wire_id_of(raw: envelope.Bytes) -> int | None:
    """Read an id of ours; ``None`` for anything else."""
    if raw is UNSET:
        return None
    digits = bytes(raw)
    if digits.isdigit() and len(digits) < 20:
        return int(digits)
    return whole(digits.strip(b'"'))  # some servers make strings of ids


def whole(number: bytes) -> int | None:
    """Read a number of ours, however it is spelled; ``None`` for anything else.

    To Gson, Lua and GDScript every number is a double: they write 3 as ``3.0``.
    """
    if number.isdigit():
        return int(number) if len(number) < 20 else None
    if _NUMBER.match(number) is None:
        return None
    value = Decimal(number.decode())
    return int(value) if value < _MOST and value == int(value) else None
