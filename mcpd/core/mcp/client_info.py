"""Who a request comes from, as far as a server of either era has to know."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from mcpd.core.mcp.versions import Era
from mcpd.core.wire import envelope

NOTHING = frozenset[str]()

SAID_BYTES: Final = 65536
"""The longest ``_meta`` of a request, and the longest ``params`` of ``initialize``: what a client
says of itself is kept as long as its session, or its request."""

NAME_LENGTH = 100
"""Characters of a client's name, and of its version, that are shown."""


class ClientInfo(msgspec.Struct, frozen=True, gc=False):
    """What a client said of itself: once for a legacy session, with each request of a modern one.

    ``capabilities`` is JSON as a modern server is told (no ``tasks``, no ``listChanged``), ``info``
    the client's name as JSON. ``answers`` are the questions it can be asked (see
    ``core.mcp.questions``); ``level`` the log level that it asked for.
    """

    era: Era
    capabilities: bytes = b"{}"
    info: bytes | None = None
    answers: frozenset[str] = NOTHING
    level: str | None = None

    @property
    def name(self) -> str | None:
        """Return what the client calls itself, such as ``claude-code 2.1.332``, if it does."""
        members = envelope.object_of(self.info) if self.info is not None else None
        name, version = (envelope.text((members or {}).get(k, UNSET)) for k in ("name", "version"))
        if not name:
            return None
        return " ".join(part[:NAME_LENGTH] for part in (name, version) if part)


UNKNOWN_CLIENT = ClientInfo(Era.LEGACY)
"""A legacy client that can be asked nothing, and has no name."""
