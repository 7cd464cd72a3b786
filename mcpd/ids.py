"""Identifiers that cross layers."""

from __future__ import annotations

from typing import NewType

SessionId = NewType("SessionId", int)
"""One downstream connection; never used twice in a daemon's life."""

SlotId = NewType("SlotId", str)
"""One place for a process: a server entry's launch, and the session or workspace it is for."""
