"""Identifiers that cross layers."""

from __future__ import annotations

from typing import NewType

SessionId = NewType("SessionId", int)
"""The id of a downstream connection; never reused while the daemon runs."""

SlotId = NewType("SlotId", str)
"""The id of a slot: a server's command, and the session or workspace that its process is for."""
