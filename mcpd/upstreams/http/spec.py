"""How a remote server is reached, resolved and ready to connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Self

import msgspec

from mcpd.config.reading.values import header_fault
from mcpd.config.remote import RemoteConfig
from mcpd.config.texts import secretnames
from mcpd.upstreams.run import Backend, UnusableSecret

_OF_HEADERS: Final = ("token", "key")
_OTHERS: Final = ("username", "password", "client_id", "client_secret")


class RemoteSpec(Backend, frozen=True, kw_only=True):
    """A server that is reached by URL. Holds secrets: never shown."""

    transport: ClassVar[str] = "http"

    remote: RemoteConfig
    """Everything of its entry, variables resolved."""

    def with_secrets(self, secrets: Mapping[str, str]) -> Self:
        """Return it with its placeholders filled; raise ``UnusableSecret``."""
        remote = self.remote
        headers = {
            name: _of_header(f"headers.{name}", secretnames.filled(value, secrets))
            for name, value in remote.headers.items()
        }
        auth = {
            field: secretnames.filled(getattr(remote.auth, field), secrets)
            for field in (*_OF_HEADERS, *_OTHERS)
        }
        for field in _OF_HEADERS:
            _of_header(f"auth.{field}", auth[field])
        if ":" in auth["username"]:
            raise UnusableSecret('auth.username: expected a name without ":" (RFC 7617)')
        return msgspec.structs.replace(
            self,
            remote=msgspec.structs.replace(
                remote, headers=headers, auth=msgspec.structs.replace(remote.auth, **auth)
            ),
            secrets=(),
        )


def _of_header(key: str, value: str) -> str:
    if wrong := header_fault(value):
        raise UnusableSecret(f"{key}: {wrong}")
    return value
