"""What a sign-in leaves: tokens, and all that is needed to renew them. Secret: never shown."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

EARLY_S: Final = 60.0
"""Seconds before its end at which a token is renewed, if it lives much longer."""

EARLY_SHARE: Final = 0.2
"""The share of a token's life before its end at which it is renewed, if that is less."""

_DIGEST_DIGITS: Final = 16


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for tokens: a client that the authorization server knows."""

    client_id: str
    client_secret: str = ""
    method: str = "none"
    """How it proves to be itself: as ``token_endpoint_auth_method`` of RFC 7591."""

    redirect_uri: str = ""
    kind: Literal["configured", "document", "registered"] = "configured"
    """Named in the entry, described by a document on the web, or registered by us."""

    secret_expires: float = 0.0
    """When the secret of a registered client ends; 0: never."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The sign-in of one server. Times are seconds since the epoch, so that they outlive us."""

    server: str
    url: str
    """That of the server; what was given for one URL is never sent to another."""

    issuer: str = ""
    token_endpoint: str
    revocation_endpoint: str = ""
    resource: str = ""
    """The ``resource`` of RFC 8707, as the server writes it; empty where it is not sent."""

    client: Client
    scopes: tuple[str, ...] = ()
    challenge: str = ""
    """The last ``WWW-Authenticate`` that asked for a sign-in: where to look for its metadata."""

    step_up: str = ""
    """The last ``WWW-Authenticate`` that asked for more scopes than were granted."""

    account: str = ""
    """As whom, where the authorization server says it."""

    access_token: str = ""
    obtained: float = 0.0
    expires: float | None = None
    """``None``: the server does not say."""

    refresh_token: str = ""
    spent: str = ""
    """``digest_of`` the refresh token that was sent last; the answer may have been lost."""

    is_kept: bool = False
    """Whether the same refresh token is used again and again: the last answer had no other."""

    def is_valid(self, now: float) -> bool:
        """Tell whether the access token can be sent."""
        return bool(self.access_token) and (self.expires is None or now < self.expires)

    def is_due(self, now: float) -> bool:
        """Tell whether the access token has to be renewed, ahead of its end."""
        if not self.access_token or self.expires is None:
            return not self.access_token
        life = max(0.0, self.expires - self.obtained)
        return now >= self.expires - min(EARLY_S, life * EARLY_SHARE)

    @property
    def can_refresh(self) -> bool:
        """Whether there is a refresh token that no earlier process may have used already."""
        return bool(self.refresh_token) and (
            self.is_kept or self.spent != digest_of(self.refresh_token)
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        found = (self.access_token, self.refresh_token, self.client.client_secret)
        return tuple(each for each in found if each)


def digest_of(token: str) -> str:
    """Return what tells a refresh token from others, and does not give it away."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_DIGITS]


def now() -> float:
    """Return the time in seconds since the epoch."""
    return datetime.now(UTC).timestamp()


def stamp(at: float) -> str:
    """Return a time as people and programs read it: RFC 3339, in UTC."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=max(0.0, min(at, 2.5e11)))
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
