"""Who a session acts for, and what that principal may do."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec


class Right(Enum):
    """What a principal may do besides MCP."""

    CONTROL = "control"
    """Send ``mcpd/`` requests."""


class Principal(msgspec.Struct, frozen=True):
    """An authenticated identity. A listener makes it; it never changes while the session lives."""

    kind: Literal["local"]
    """How it was authenticated: ``local`` by the kernel, as a user of this machine."""

    name: str
    """For people: ``uid 1000``."""

    uid: int | None
    rights: frozenset[Right]

    def may(self, right: Right) -> bool:
        """Tell whether this principal has a right."""
        return right in self.rights

    def without(self, right: Right) -> Principal:
        """Return the same principal with one right less."""
        return msgspec.structs.replace(self, rights=self.rights - {right})


def local(uid: int) -> Principal:
    """Return the principal of a user of this machine, who has all rights."""
    return Principal("local", f"uid {uid}", uid, frozenset(Right))
