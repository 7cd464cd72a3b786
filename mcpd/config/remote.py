"""A server that is reached by URL: its keys as written, and with variables resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

OF_KIND: Final[Mapping[str, Sequence[str]]] = {
    "auto": ("scopes",),
    "none": (),
    "bearer": ("token",),
    "api-key": ("key", "header"),
    "basic": ("username", "password"),
    "oauth": (
        "client_id",
        "client_secret",
        "client_metadata_url",
        "scopes",
        "redirect_port",
        "callback_host",
        "authorize_params",
        "grant",
        "key_file",
        "key_algorithm",
    ),
}
"""The fields of ``AuthConfig`` that count for each kind."""

Seconds = float


class AuthConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The ``auth`` of a remote server; which fields count depends on ``kind``."""

    kind: Literal["auto", "none", "bearer", "api-key", "basic", "oauth"] = "auto"
    """How requests are authorised; ``auto`` signs in with OAuth when the server asks for it."""

    token: str = ""
    """Of ``bearer``."""

    key: str = ""
    """Of ``api-key``."""

    header: str = "x-api-key"
    """The header that carries ``key``."""

    username: str = ""
    """Of ``basic``."""

    password: str = ""
    """Of ``basic``."""

    client_id: str = ""
    """Of ``oauth``: a client that was registered by hand."""

    client_secret: str = ""
    """Of ``oauth``."""

    client_metadata_url: str = ""
    """Of ``oauth``: where the client's metadata document is published."""

    scopes: tuple[str, ...] = ()
    """Of ``oauth``: what to ask for; none: what the server names."""

    redirect_port: int = 0
    """Of ``oauth``: the port of the redirect address; 0: any that is free."""

    callback_host: Literal["127.0.0.1", "localhost"] = "127.0.0.1"
    """Of ``oauth``: the host of the redirect address."""

    authorize_params: dict[str, str] = {}
    """Of ``oauth``: further parameters of the authorization request, shown in the browser."""

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """Of ``oauth``: whether a person signs in, or the machine itself."""

    key_file: str = ""
    """Of ``oauth``: a private key in PEM, for ``private_key_jwt``."""

    key_algorithm: str = "ES256"
    """Of ``oauth``: the algorithm of ``key_file``."""


class RemoteConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached by URL. With variables resolved it holds secrets: never shown."""

    url: str
    """Its MCP endpoint."""

    transport: Literal["auto", "http", "sse"] = "auto"
    """Streamable HTTP, HTTP+SSE of 2024-11-05, or the first and then the second."""

    headers: dict[str, str] = {}
    """Headers of each request."""

    auth: AuthConfig = AuthConfig()
    """How requests are authorised."""

    connect_timeout: Seconds = 10.0
    """Time for a connection to be made."""

    ping_interval: Seconds = 0.0
    """Time between pings on a connection without traffic. 0: none."""

    retry_attempts: int = 3
    """How often a request that was not sent is tried again."""

    proxy: str = "env"
    """``env`` for ``HTTPS_PROXY`` and ``NO_PROXY``, ``none``, or the URL of a proxy."""

    ca_file: str = ""
    """Certificates of authorities, beside those of the system."""

    client_cert: str = ""
    """Certificate that the client shows."""

    client_key: str = ""
    """Private key of ``client_cert``."""

    allow_insecure: bool = False
    """Whether ``http://`` may lead to a host that is not loopback."""

    @property
    def can_sign_in(self) -> bool:
        """Whether requests can be authorised by a sign-in, and nothing else does it."""
        has_own = any(name.lower() == "authorization" for name in self.headers)
        return self.auth.kind == "oauth" or (self.auth.kind == "auto" and not has_own)


def as_written(remote: RemoteConfig) -> dict[str, Any]:
    """Return the values as an entry has them; ``auth`` has only what counts for its kind."""
    values: dict[str, Any] = msgspec.to_builtins(remote)
    auth = values["auth"]
    which = auth["kind"]
    usual = msgspec.to_builtins(AuthConfig())
    own = {key: auth[key] for key in OF_KIND[which] if auth[key] != usual[key]}
    values["auth"] = {"type": which, **own} if own else which
    return values
