"""How far the process of a slot is."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """How far the process of a slot is, as its protocol side sees it."""

    DOWN = "down"
    """There is none, or it has ended."""
    STARTING = "starting"
    """It runs, and has not yet introduced itself and listed its tools."""
    READY = "ready"
    """It is sent the requests of clients."""
