"""Pins of tools: what a remembered answer was given for."""

from __future__ import annotations

import hashlib
from typing import Final

from mcpd.core.catalog.canonical import digest_of, form_of
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.state.state import MuxState

MOST: Final = 1000
"""Pins that are kept, so that they need not be computed for each call."""

_DIGEST_BYTES: Final = 16


class ToolPins:
    """The pins of definitions, computed once for each text."""

    def __init__(self, state: MuxState) -> None:
        self._state = state
        self._pins: dict[tuple[bytes, bool], bytes] = {}
        """By the digest of a definition, and by whether its text may change."""

    def pin_of(self, server: str, item: Item | None) -> bytes:
        """Return what changes with a tool's definition as a client gets it, however it is spelled.

        The text of a volatile one may change.
        """
        if item is None:
            return b""
        definitions = self._state.definitions_of(server)
        raw = hashlib.blake2b(item.raw, digest_size=_DIGEST_BYTES).digest()
        key = raw, definitions is not None and definitions.approved.is_volatile(item.identity)
        pin = self._pins.get(key)
        if pin is None:
            if len(self._pins) >= MOST:
                self._pins.clear()
            form = form_of(Kind.TOOLS, item.raw)
            digest = digest_of(f"{form.schema}{form.hints}{form.output}".encode())
            pin = bytes.fromhex(digest if key[1] else form.hash)[:_DIGEST_BYTES]
            self._pins[key] = pin
        return pin

    def all_of(self, server: str) -> dict[str, tuple[bytes, bytes]]:
        """Return the pin and the definition of each tool of a server, by its name."""
        listing = self._state.catalog_of(server).get(Kind.TOOLS)
        found = {} if listing is None else {item.identity: item for item in listing.items}
        return {name: (self.pin_of(server, item), item.raw) for name, item in found.items()}
