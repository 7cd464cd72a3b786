"""Requests to a token endpoint and what its answers mean. No I/O.

Source: RFC 6749, sections 2.3.1, 4.4 and 6; RFC 7009; RFC 7523, section 2.2; RFC 8707.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from mcpd.signin.credentials import Client, Credentials

_ERROR_CODE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_S: Final = 300.0


class Post(msgspec.Struct, frozen=True):
    """A request. Secret: never shown."""

    url: str
    body: bytes
    headers: Mapping[str, str]


class Reply(msgspec.Struct, frozen=True):
    """The response to a request. Secret: never shown."""

    status: int
    body: bytes


class Tokens(msgspec.Struct, frozen=True):
    """What a token endpoint gave."""

    access_token: str
    expires_in: float | None = None
    refresh_token: str = ""
    scopes: tuple[str, ...] | None = None
    """``None``: those that were asked for."""


class Denied(msgspec.Struct, frozen=True):
    """The token endpoint will not give a token, until something is changed."""

    error: str
    """The code of RFC 6749, section 5.2; free texts may repeat what was sent, and are not kept."""


class Unanswered(msgspec.Struct, frozen=True):
    """The token endpoint did not decide: the same request may succeed later."""

    reason: str
    status: int | None = None
    is_lost: bool = False
    """Whether it may have been carried out, and the answer was lost."""


Outcome = Tokens | Denied | Unanswered


class _Body(msgspec.Struct):
    access_token: str | None = None
    token_type: str = "Bearer"
    expires_in: Any = None
    refresh_token: str | None = None
    scope: str | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Body).decode


def refresh(credentials: Credentials, client: Client) -> Post:
    """Return the request for a new access token."""
    form = {"grant_type": "refresh_token", "refresh_token": credentials.refresh_token}
    return _post(credentials.token_endpoint, _with_resource(form, credentials), client)


def client_credentials(
    credentials: Credentials, client: Client, scopes: tuple[str, ...], assertion: str = ""
) -> Post:
    """Return the request for a token of the client itself.

    ``assertion`` is what a client with a key proves itself with, instead of a secret.
    """
    form = {"grant_type": "client_credentials"}
    if scopes:
        form["scope"] = " ".join(scopes)
    form = _with_resource(form, credentials)
    if assertion:
        form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": assertion}
    return _post(credentials.token_endpoint, form, client)


def revocation(credentials: Credentials, client: Client, token: str, hint: str) -> Post:
    """Return the request that revokes a token."""
    form = {"token": token, "token_type_hint": hint}
    return _post(credentials.revocation_endpoint, form, client)


def claims(client_id: str, credentials: Credentials, now: float) -> dict[str, Any]:
    """Return what a client with a key signs.

    Source: RFC 7523, section 3. The audience is the issuer, as newer servers demand; those that
    know only the token endpoint take it as well by its origin.
    """
    return {
        "iss": client_id,
        "sub": client_id,
        "aud": credentials.issuer or credentials.token_endpoint,
        "iat": int(now),
        "exp": int(now + _ASSERTION_S),
        "jti": secrets.token_urlsafe(16),
    }


def read(reply: Reply) -> Outcome:
    """Return what an answer means. Never raises."""
    try:
        body = _decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        body = None
    if reply.status in (200, 201) and body is not None and body.access_token:
        if body.token_type.lower() != "bearer":
            return Denied("unsupported_token_type")
        scopes = None if body.scope is None else tuple(body.scope.split())
        return Tokens(
            body.access_token, _seconds(body.expires_in), body.refresh_token or "", scopes
        )
    if reply.status in (400, 401, 403) and body is not None and isinstance(body.error, str):
        code = body.error if _ERROR_CODE.fullmatch(body.error) else "an error without a code"
        if code == "temporarily_unavailable":
            return Unanswered(code, reply.status)
        return Denied(code)
    return Unanswered(f"HTTP status {reply.status}", reply.status)


def _post(url: str, form: dict[str, str], client: Client) -> Post:
    """Return a request in which the client proves who it is, in exactly one way."""
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    if "client_assertion" in form:
        form["client_id"] = client.client_id
    elif client.method == "client_secret_basic" and client.client_secret:
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form["client_id"] = client.client_id
        if client.method == "client_secret_post" and client.client_secret:
            form["client_secret"] = client.client_secret
    return Post(url, urlencode(form).encode(), headers)


def _with_resource(form: dict[str, str], credentials: Credentials) -> dict[str, str]:
    return {**form, "resource": credentials.resource} if credentials.resource else form


def _seconds(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if 0 < found < 1e12 else None
