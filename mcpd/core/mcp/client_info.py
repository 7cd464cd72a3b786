"""The client that a request comes from, as servers of either era are told."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from mcpd.core.mcp.versions import Era
from mcpd.core.wire import envelope

NOTHING = frozenset[str]()

CLIENT_INFO_BYTES: Final = 65536
"""The longest ``_meta`` of a request, and the longest ``params`` of ``initialize``: they are kept
as long as the request, or the session."""

NAME_LENGTH = 100
"""Characters of a client's name that are shown; also of its version."""


class ClientInfo(msgspec.Struct, frozen=True, gc=False):
    """A client's capabilities and name: once per legacy session, with each modern request.

    ``capabilities`` is JSON as sent to modern servers (no ``tasks``, no ``listChanged``), ``info``
    the client's ``Implementation`` as JSON. ``answers`` are the questions that it can answer (see
    ``core.mcp.questions``); ``level`` is the log level that it asked for.
    """

    era: Era
    capabilities: bytes = b"{}"
    info: bytes | None = None
    answers: frozenset[str] = NOTHING
    level: str | None = None

    @property
    def name(self) -> str | None:
        """Return the client's name and version, such as ``claude-code 2.1.332``, or ``None``."""
        members = envelope.object_of(self.info) if self.info is not None else None
        name, version = (envelope.text((members or {}).get(k, UNSET)) for k in ("name", "version"))
        if not name:
            return None
        return " ".join(part[:NAME_LENGTH] for part in (name, version) if part)


UNKNOWN_CLIENT = ClientInfo(Era.LEGACY)
"""A legacy client without capabilities and name."""
