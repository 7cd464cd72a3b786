"""What is checked of a request before anybody reads its body: Host, Origin, types, revision."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

PREFLIGHT_HEADERS: Final = (
    "authorization",
    "content-type",
    "accept",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
    "mcp-name",
    "last-event-id",
)
"""Request headers that a page of an allowed origin may send, beside ``Mcp-Param-*``."""

EXPOSED_HEADERS: Final = b"Mcp-Session-Id, WWW-Authenticate"
"""Response headers that such a page may read."""

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"

_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
_PORT: Final = re.compile(r":[0-9]{1,5}\Z")
_PARAM: Final = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+\Z")


def is_our_host(host: str | None, allowed: Collection[str]) -> bool:
    """Tell whether a ``Host`` header names us: loopback, or one of ``allowed``, with any port.

    A page that rebinds a name of its own to 127.0.0.1 sends that name.
    """
    if host is None:
        return False
    name = _PORT.sub("", host.strip()).lower()
    return name in _LOOPBACK or name in allowed or host.strip().lower() in allowed


def is_our_origin(origin: str, host: str, allowed: Collection[str]) -> bool:
    """Tell whether a page of this origin may send requests.

    That is one of ``allowed``, or the origin that the request itself was sent to: a page that we
    serve. ``host`` is the value of the ``Host`` header, which was checked before.
    """
    return origin in allowed or origin.lower() == f"http://{host.strip().lower()}"


def preflight(requested: str | None) -> list[tuple[bytes, bytes]]:
    """Return the headers that answer a CORS preflight of an allowed origin.

    ``requested`` is the value of ``Access-Control-Request-Headers``.
    """
    asked = [name.strip().lower() for name in (requested or "").split(",")]
    allowed = [*PREFLIGHT_HEADERS, *(name for name in asked if _PARAM.match(name))]
    return [
        (b"Access-Control-Allow-Methods", b"POST, GET, DELETE"),
        (b"Access-Control-Allow-Headers", ", ".join(allowed).encode("latin-1")),
        (b"Access-Control-Max-Age", b"600"),
    ]


def bearer(authorization: str | None) -> str | None:
    """Return the token of an ``Authorization`` header, ``None`` where it has none."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def is_json(content_type: str | None) -> bool:
    """Tell whether a ``Content-Type`` is ``application/json``, whatever its parameters."""
    return (content_type or "").partition(";")[0].strip().lower() == JSON


class Accepted:
    """The types that an ``Accept`` header takes, of the two that we answer with."""

    def __init__(self, header: str | None) -> None:
        """Read a header; one that is absent takes everything."""
        self.json, self.stream = _accepted(header)


@lru_cache(maxsize=64)
def _accepted(header: str | None) -> tuple[bool, bool]:
    """Return whether JSON and a stream are taken; a client sends the same header each time."""
    ranges = _ranges(header) if header is not None else {"*/*": 1.0}
    return _quality(ranges, JSON) > 0, _quality(ranges, STREAM) > 0


def _ranges(header: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in header.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        if name:
            found[name] = quality
    return found


def _quality(ranges: dict[str, float], wanted: str) -> float:
    """Return the quality of a type: the most specific range that covers it counts (RFC 9110)."""
    for name in (wanted, wanted.partition("/")[0] + "/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0
