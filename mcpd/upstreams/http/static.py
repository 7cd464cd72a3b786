"""Credentials that the configuration holds: a token, a key, a password, or none."""

from __future__ import annotations

import base64

from mcpd.config.remote import AuthConfig
from mcpd.core.facts import Failure
from mcpd.upstreams.http import failures
from mcpd.upstreams.http.authorizer import CannotAuthorize, Refused


class StaticAuthorizer:
    """Authorises every request in the same way; a refusal is final."""

    def __init__(self, server: str, auth: AuthConfig) -> None:
        self._server = server
        self._auth = auth
        self._headers = _headers(auth)

    async def headers(self) -> dict[str, str]:
        """Return the headers of a request."""
        return self._headers

    async def refused(self, sent: dict[str, str], refused: Refused) -> None:
        """Raise ``CannotAuthorize``: there is nothing else to try."""
        raise CannotAuthorize(self._failure(refused))

    def describe(self) -> str:
        """Return the kind."""
        return "none" if self._auth.kind == "auto" else self._auth.kind

    def _failure(self, refused: Refused) -> Failure:
        what = {
            "bearer": "the token of its entry",
            "api-key": "the key of its entry",
            "basic": "the user name and password of its entry",
        }.get(self._auth.kind, "a request without credentials")
        return failures.refused(self._server, refused.status, what, refused.challenge)


def _headers(auth: AuthConfig) -> dict[str, str]:
    match auth.kind:
        case "bearer":
            return {"Authorization": f"Bearer {auth.token}"}
        case "api-key":
            return {auth.header: auth.key}
        case "basic":
            both = f"{auth.username}:{auth.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(both).decode()}"}
    return {}
