"""Facts of servers and their processes. Names have the units."""

from __future__ import annotations

import msgspec

from mcpd.core.facts.failure import Failure
from mcpd.ids import SlotId


class ServerStarting(msgspec.Struct, frozen=True):
    """A process is about to be spawned."""

    server: str
    slot: SlotId
    generation: int


class ServerReady(msgspec.Struct, frozen=True):
    """The handshake is done and the tools are listed."""

    server: str
    slot: SlotId
    generation: int
    pid: int | None
    """``None`` for a server that is not a process."""
    duration_s: float
    era: str
    protocol_version: str


class ServerCrashed(msgspec.Struct, frozen=True):
    """A process ended by itself, or could not be used."""

    server: str
    slot: SlotId
    generation: int
    failure: Failure


class ServerBackoff(msgspec.Struct, frozen=True):
    """The next start waits for ``delay_s``, after ``failures`` in a row."""

    server: str
    slot: SlotId
    delay_s: float
    failures: int


class ServerFailed(msgspec.Struct, frozen=True):
    """The server crashed too often and is given up, until a user starts it."""

    server: str
    slot: SlotId
    failure: Failure


class LoginRequired(msgspec.Struct, frozen=True):
    """Somebody must sign in before the server can be used."""

    server: str
    slot: SlotId
    failure: Failure


class ServerStopping(msgspec.Struct, frozen=True):
    """A process is being stopped."""

    server: str
    slot: SlotId
    reason: str


class ServerStopped(msgspec.Struct, frozen=True):
    """A process and its whole process tree are gone."""

    server: str
    slot: SlotId
    reason: str
    step: str | None = None


class SignedIn(msgspec.Struct, frozen=True):
    """Somebody has signed in to a server; ``until`` is RFC 3339, where that is known."""

    server: str
    issuer: str
    until: str | None


class SecretUnavailable(msgspec.Struct, frozen=True):
    """A server was not started: a secret that its entry names cannot be used.

    ``reason`` is ``missing``, ``unusable``, ``keyring_locked`` or ``keyring_unavailable``.
    """

    server: str
    name: str
    reason: str
    message: str


class ServerOverMemory(msgspec.Struct, frozen=True):
    """A process tree uses more memory than its entry allows."""

    server: str
    slot: SlotId
    memory_bytes: int
    limit_bytes: int
    is_busy: bool
    """Whether the server has pending requests; if not, it is restarted at once."""


class StrayEnded(msgspec.Struct, frozen=True):
    """An orphaned process of a server that is gone was found, and is being ended."""

    pid: int


class CatalogChanged(msgspec.Struct, frozen=True):
    """A list of a server has changed."""

    server: str
    kind: str
    count: int


class ServerNoise(msgspec.Struct, frozen=True):
    """A server wrote a line on stdout that is not a valid message."""

    server: str
    reason: str
    text: str
    is_first: bool


class ServerWarning(msgspec.Struct, frozen=True):
    """A warning about a server, such as a violation of the protocol with little effect."""

    server: str
    text: str


class ServerLogged(msgspec.Struct, frozen=True):
    """A server sent a log message that belongs to no session."""

    server: str
    level: str
    text: str


class BudgetUsedUp(msgspec.Struct, frozen=True):
    """A server has used up what it may use of something today; told once a day."""

    server: str
    limit: str
    """The key of the entry that says how much."""
    most: int
