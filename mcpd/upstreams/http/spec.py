"""How a remote server is reached, resolved and ready to connect."""

from __future__ import annotations

from typing import ClassVar

from mcpd.config.remote import RemoteConfig
from mcpd.upstreams.run import Backend


class RemoteSpec(Backend, frozen=True, kw_only=True):
    """A server that is reached by URL. Holds secrets: never shown."""

    transport: ClassVar[str] = "http"

    remote: RemoteConfig
    """Everything of its entry, variables resolved."""
