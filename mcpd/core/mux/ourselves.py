"""Who we are to a server: what we say of ourselves in either era."""

from __future__ import annotations

import msgspec

from mcpd.core.mcp import legacy
from mcpd.core.mcp.asker import Asker
from mcpd.core.mcp.versions import Era
from mcpd.core.mux.entries import Entry

_NAME = "mcpd"


def handshake_params(entry: Entry, version: str) -> bytes:
    """Return the parameters of our ``initialize``."""
    return legacy.handshake_params(
        _NAME,
        version,
        declares_roots=bool(entry.roots),
        tells_roots=entry.asks_for_roots,
    )


def listing_asker(entry: Entry, version: str) -> Asker:
    """Return who asks a modern server for lists: it is told what a legacy one is told."""
    capabilities: dict[str, object] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
    if entry.roots or entry.asks_for_roots:
        capabilities["roots"] = {}
    return Asker(Era.LEGACY, msgspec.json.encode(capabilities), _info(version))


def calling_asker(version: str) -> Asker:
    """Return who makes control calls to a modern server: nobody who could be asked anything."""
    return Asker(Era.LEGACY, b"{}", _info(version))


def _info(version: str) -> bytes:
    return msgspec.json.encode({"name": _NAME, "version": version})
