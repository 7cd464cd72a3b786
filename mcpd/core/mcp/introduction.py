"""A server's answer to the handshake, in either era."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp.versions import LEGACY, MODERN, Era
from mcpd.core.wire.envelope import object_from, object_of

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The tasks of 2026-07-28, a member of ``extensions``; unlike those of 2025-11-25."""


class Introduction(msgspec.Struct, frozen=True):
    """A server's version, capabilities, name and instructions, as sent in the handshake.

    ``info`` (the server's ``Implementation``) and ``instructions`` are JSON as it came.
    """

    version: str
    capabilities: dict[str, Raw]
    info: bytes
    instructions: bytes | None = None

    @property
    def era(self) -> Era:
        """Return the era of the server's protocol version."""
        return Era.MODERN if self.version in MODERN else Era.LEGACY

    def has(self, capability: str, member: str | None = None) -> bool:
        """Tell whether the server declared a capability, or a member of it as true."""
        found = self.capabilities.get(capability)
        if found is None or bytes(found) in (b"null", b"false"):
            return False
        if member is None:
            return True
        return bytes((object_of(found) or {}).get(member, Raw(b""))) == b"true"

    def without(self, lacks: Callable[[str], bool]) -> Introduction:
        """Return it without the capabilities of which ``lacks`` is true."""
        if not any(map(lacks, self.capabilities)):
            return self
        kept = {name: raw for name, raw in self.capabilities.items() if not lacks(name)}
        return msgspec.structs.replace(self, capabilities=kept)

    def to_cache(self) -> dict[str, Any]:
        """Return the introduction as JSON data for the cache on disk."""
        return {
            "version": self.version,
            "capabilities": object_from(self.capabilities).decode(),
            "info": self.info.decode(),
            "instructions": None if self.instructions is None else self.instructions.decode(),
        }

    @classmethod
    def from_cache(cls, data: dict[str, Any]) -> Introduction:
        """Read what ``to_cache`` wrote.

        Raises:
            KeyError, TypeError, ValueError: ``data`` is anything else.
        """
        texts = {name: data[name] for name in ("version", "capabilities", "info")}
        instructions = data["instructions"]
        if not all(isinstance(found, str) for found in (*texts.values(), instructions or "")):
            raise TypeError("an introduction is made of texts")
        capabilities = object_of(texts["capabilities"].encode())
        if texts["version"] not in (*LEGACY, *MODERN) or capabilities is None:
            raise ValueError("no introduction of a server")
        return cls(
            version=texts["version"],
            capabilities=capabilities,
            info=texts["info"].encode(),
            instructions=None if instructions is None else instructions.encode(),
        )


class HandshakeRefused(Exception):
    """The server's answer to the handshake is unusable; the message continues its name."""
