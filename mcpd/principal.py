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

    servers: frozenset[str] | None = None
    """Names of servers; ``None`` means all."""

    tools: tuple[tuple[str, ...], ...] = ()
    """Groups of shell patterns, for ``TOOL`` or ``SERVER.TOOL`` by a server's own names: a tool
    matches one of each group."""

    read_only: bool = False
    """Whether only tools that say ``readOnlyHint``."""

    resources: bool = True
    """Whether resources may be read."""

    prompts: bool = True
    """Whether prompts may be got."""

    def has(self, server: str) -> bool:
        """Tell whether a server is part of it."""
        return self.servers is None or server in self.servers

    def lacks(self, capability: str) -> bool:
        """Tell whether a capability of servers is no part of it: ``resources``, ``prompts``."""
        return (capability == "resources" and not self.resources) or (
            capability == "prompts" and not self.prompts
        )

    def within(self, other: Scope) -> Scope:
        """Return what is part of both."""
        if self is EVERYTHING or other is EVERYTHING:
            return self if other is EVERYTHING else other
        if self.servers is None or other.servers is None:
            servers = other.servers if self.servers is None else self.servers
        else:
            servers = self.servers & other.servers
        return Scope(
            servers,
            (*self.tools, *other.tools),
            self.read_only or other.read_only,
            self.resources and other.resources,
            self.prompts and other.prompts,
        )


EVERYTHING: Final = Scope()
NOTHING: Final = Scope(servers=frozenset(), resources=False, prompts=False)


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
    """What it may use, besides what its profile lets it."""

    profile: str | None = None
    """The profile of the configuration that narrows ``scope``, if it is in one."""

    @property
    def label(self) -> str:
        """Return it as records name it: ``local``, ``token:NAME`` or ``none``."""
        return f"token:{self.name}" if self.kind == "token" else self.kind

    def may(self, right: Right) -> bool:
        """Tell whether this principal has a right."""
        return right in self.rights

    def in_profile(self, profile: str) -> Principal:
        """Return the same principal within a profile, without rights besides MCP."""
        return msgspec.structs.replace(self, profile=profile, rights=frozenset())

    def without(self, right: Right) -> Principal:
        """Return the same principal with one right less."""
        return msgspec.structs.replace(self, rights=self.rights - {right})


def local(uid: int) -> Principal:
    """Return the principal of a user of this machine, who has all rights."""
    return Principal("local", f"uid {uid}", uid, frozenset(Right))


def bearer(token: str | None, scope: Scope = EVERYTHING, profile: str | None = None) -> Principal:
    """Return the principal of a client that showed a token, ``None`` where none is asked for.

    It has no rights besides MCP.
    """
    if token is None:
        return Principal("none", "anybody on this machine", None, frozenset())
    return Principal("token", token, None, frozenset(), scope, profile)
