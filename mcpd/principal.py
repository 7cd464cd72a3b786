"""Who a session acts for, and what that principal may do."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

import msgspec


class Right(Enum):
    """What a principal may do besides MCP."""

    CONTROL = "control"
    """Send ``mcpd/`` requests."""


class Scope(msgspec.Struct, frozen=True):
    """What of the servers a principal may use."""

    servers: tuple[str, ...] = ()
    """Names of servers; none means all."""

    tools: tuple[str, ...] = ()
    """Shell patterns of tools, by a server's own names; none means all."""

    read_only: bool = False
    """Whether only tools that say ``readOnlyHint``."""

    def has(self, server: str) -> bool:
        """Tell whether a server is part of it."""
        return not self.servers or server in self.servers


EVERYTHING: Final = Scope()


class Principal(msgspec.Struct, frozen=True):
    """An authenticated identity. A listener makes it; it never changes while the session lives."""

    kind: Literal["local", "token", "none"]
    """How it was authenticated: ``local`` by the kernel, as a user of this machine; by a ``token``;
    or not at all (``none``)."""

    name: str
    """For people: ``uid 1000``, or the name of the token."""

    uid: int | None
    rights: frozenset[Right]
    scope: Scope = EVERYTHING

    @property
    def label(self) -> str:
        """Return it as records name it: ``local``, ``token:NAME`` or ``none``."""
        return f"token:{self.name}" if self.kind == "token" else self.kind

    def may(self, right: Right) -> bool:
        """Tell whether this principal has a right."""
        return right in self.rights

    def without(self, right: Right) -> Principal:
        """Return the same principal with one right less."""
        return msgspec.structs.replace(self, rights=self.rights - {right})


def local(uid: int) -> Principal:
    """Return the principal of a user of this machine, who has all rights."""
    return Principal("local", f"uid {uid}", uid, frozenset(Right))


def bearer(token: str | None, scope: Scope = EVERYTHING) -> Principal:
    """Return the principal of a client that showed a token, ``None`` where none is asked for.

    It has no rights besides MCP.
    """
    if token is None:
        return Principal("none", "anybody on this machine", None, frozenset())
    return Principal("token", token, None, frozenset(), scope)
