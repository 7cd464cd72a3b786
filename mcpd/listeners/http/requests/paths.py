"""The addresses of the front: which endpoint a path names, and what may be done there."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes


class Place(Enum):
    """What is served at a path."""

    MCP = "mcp"
    """Streamable HTTP: of one server, or of the aggregate."""
    SSE = "sse"
    """The stream of a client of 2024-11-05."""
    MESSAGES = "messages"
    """The address that such a stream announces."""
    HEALTH = "health"


METHODS: Final = {
    Place.MCP: ("GET", "POST", "DELETE"),
    Place.SSE: ("GET",),
    Place.MESSAGES: ("POST",),
    Place.HEALTH: ("GET",),
}


class Endpoint(NamedTuple):
    """What a path names; ``server`` is ``None`` for the aggregate."""

    place: Place
    server: str | None = None


@lru_cache(maxsize=64)
def find(raw_path: bytes) -> Endpoint | None:
    """Return the endpoint of a path as it was sent, percent-encoded; ``None`` where there is none.

    A slash at the end changes nothing: a redirect would cost some clients their token.
    """
    parts = raw_path.split(b"/")
    if len(parts) > 2 and parts[-1] == b"":
        parts.pop()
    match parts:
        case [b"", b"healthz"]:
            return Endpoint(Place.HEALTH)
        case [b"", b"mcp"]:
            return Endpoint(Place.MCP)
        case [b"", b"mcp", name]:
            return _of_server(Place.MCP, name)
        case [b"", b"sse"]:
            return Endpoint(Place.SSE)
        case [b"", b"sse", name]:
            return _of_server(Place.SSE, name)
        case [b"", b"messages", ident]:
            return _of_server(Place.MESSAGES, ident)
    return None


def _of_server(place: Place, quoted: bytes) -> Endpoint | None:
    try:
        return Endpoint(place, unquote_to_bytes(quoted).decode())
    except UnicodeDecodeError:
        return None
