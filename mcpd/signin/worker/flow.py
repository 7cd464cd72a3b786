"""The sign-in itself, in its own process: the official SDK's provider, driven by hand.

The provider yields requests and takes responses. They are sent here, so that every address is
checked before; the response of the server that asked for the sign-in comes from the daemon.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from mcpd.redact import Redactor
from mcpd.signin.addresses import AddressRefused, Policy
from mcpd.signin.credentials import Client
from mcpd.signin.protocol import Discover, Discovered, SignedIn, SignIn
from mcpd.signin.worker.listener import Listener
from mcpd.signin.worker.sender import CLIENT_NAME, Sender, SignInFailed, policy_of

_MOST_CHARACTERS: Final = 300
_DONE: Final = (200, 201)


class _Storage:
    """What the provider knows from before, and what it finds."""

    def __init__(
        self, tokens: OAuthToken | None = None, client: OAuthClientInformationFull | None = None
    ) -> None:
        self.before, self.client = tokens, client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.before

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Found(Exception):
    """Everything was discovered that a token request needs."""


class _Provider(OAuthClientProvider):
    """The SDK's provider, with what the contract of mcpd adds before somebody is sent anywhere."""

    policy: Policy
    callback_host = ""
    scopes: tuple[str, ...] = ()
    is_step_up = False
    is_discovery = False

    async def _perform_authorization(self) -> httpx2.Request:
        """Check what was discovered, then go on."""
        context = self.context
        self.policy.check_url(self._get_token_endpoint())
        if self.is_discovery:
            raise _Found
        metadata, client = context.oauth_metadata, context.client_info
        has_prm = context.protected_resource_metadata is not None
        # Source: MCP 2025-11-25, basic/authorization, "Authorization Code Protection".
        if metadata and has_prm and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise SignInFailed(f"{metadata.issuer} does not say that it supports PKCE (S256)")
        if client is not None and client.token_endpoint_auth_method is None:
            supported = metadata and metadata.token_endpoint_auth_methods_supported
            client.token_endpoint_auth_method = choose_method(
                supported or (), has_secret=bool(client.client_secret)
            )
        if self.scopes:
            asked = " ".join(self.scopes)
            wanted = context.client_metadata.scope
            context.client_metadata.scope = (
                union_scopes(asked, wanted) if self.is_step_up else asked
            )
        return await super()._perform_authorization()

    def discovered(self) -> Discovered:
        """Return what was found out about the authorization server."""
        context = self.context
        metadata, prm = context.oauth_metadata, context.protected_resource_metadata
        revocation = "" if metadata is None else str(metadata.revocation_endpoint or "")
        with contextlib.suppress(AddressRefused):
            self.policy.check_url(revocation)
            methods = (metadata and metadata.token_endpoint_auth_methods_supported) or ()
            return Discovered(
                issuer=self._expected_issuer(),
                token_endpoint=self._get_token_endpoint(),
                revocation_endpoint=revocation,
                resource=context.get_resource_url() if prm is not None else "",
                methods=tuple(methods),
                scopes=tuple((context.client_metadata.scope or "").split()),
            )
        return Discovered(
            issuer=self._expected_issuer(),
            token_endpoint=self._get_token_endpoint(),
            resource=context.get_resource_url() if prm is not None else "",
            scopes=tuple((context.client_metadata.scope or "").split()),
        )


def choose_method(supported: tuple[str, ...] | list[str], *, has_secret: bool) -> str:
    """Return how a client with or without a secret proves who it is, of what is supported.

    Source: RFC 8414, section 2: without a list it is ``client_secret_basic``.
    """
    if not has_secret:
        return "none"
    if not supported or "client_secret_basic" in supported:
        return "client_secret_basic"
    return "client_secret_post" if "client_secret_post" in supported else "client_secret_basic"


def with_parameters(url: str, more: Mapping[str, str]) -> str:
    """Return a URL with these parameters in its query; they replace others of the same name."""
    address, _, query = url.partition("?")
    kept = [each for each in query.split("&") if unquote_plus(each.partition("=")[0]) not in more]
    return f"{address}?{'&'.join((*kept, urlencode(more)))}" if more else url


async def discover(order: Discover) -> Discovered:
    """Find the authorization server of a server.

    Raises:
        SignInFailed: there is none that can be used.
    """
    placeholder = OAuthClientInformationFull(client_id="-", redirect_uris=None)
    metadata = OAuthClientMetadata(redirect_uris=None, grant_types=["client_credentials"])
    provider = _Provider(order.url, metadata, _Storage(client=placeholder))
    provider.policy = await policy_of(order.url)
    provider.is_discovery = True
    sender = Sender(order.connection, provider.policy)
    try:
        await _drive(provider, sender, order.url, 401, order.challenge, Secrets())
    except _Found:
        return provider.discovered()
    finally:
        await sender.close()
    raise SignInFailed("no authorization server was found")


class Secrets:
    """What a sign-in knows that no message may have."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def mask(self, text: str) -> str:
        """Return a text for people: without secrets, cut, without control characters."""
        shown = Redactor(self.found).mask(text[: 4 * _MOST_CHARACTERS])
        return "".join(c if c.isprintable() else " " for c in shown)[:_MOST_CHARACTERS]


async def sign_in(
    order: SignIn, show: Callable[[str], None], opened: Callable[[Listener], None]
) -> SignedIn:
    """Let a person sign in; ``show`` takes the address to open, ``opened`` what waits for it.

    Raises:
        SignInFailed: it could not be done, was refused, or took too long.
    """
    listener = Listener(order.callback_host)
    secrets = Secrets()
    client = order.client
    before = client.redirect_uri if client is not None and client.kind == "registered" else ""
    try:
        ports = (order.redirect_port,) if order.redirect_port else (urlsplit(before).port or 0, 0)
        await listener.open(*ports)
    except OSError as error:
        raise SignInFailed(
            f"cannot listen on port {order.redirect_port} (redirect_port): {error.strerror}"
        ) from None
    if client is not None and client.kind == "registered" and before != listener.redirect_uri:
        client = None  # what was registered is another address than ours
    opened(listener)
    provider = _provider(order, client, listener, show, secrets)
    provider.policy = await policy_of(order.url)
    sender = Sender(order.connection, provider.policy)
    try:
        async with asyncio.timeout(order.timeout):
            account = await _drive(
                provider, sender, order.url, order.status, order.challenge, secrets
            )
    except TimeoutError:
        raise SignInFailed(f"nobody signed in within {order.timeout:g} s") from None
    finally:
        listener.close()
        await sender.close()
    return _signed_in(provider, order, client, listener, account)


def _provider(
    order: SignIn,
    client: Client | None,
    listener: Listener,
    show: Callable[[str], None],
    secrets: Secrets,
) -> _Provider:
    async def redirect(url: str) -> None:
        endpoint = url.rpartition("?")[0]
        if "?" in endpoint:  # the SDK does not expect an endpoint with a query
            url = f"{endpoint}&{url[len(endpoint) + 1 :]}"
        url = with_parameters(url, order.authorize_params)
        provider.policy.check_url(url)
        asked = parse_qs(urlsplit(url).query)
        secrets.found |= {*asked["state"], *asked["code_challenge"]}
        listener.expect(asked["state"][-1])
        show(url)

    async def callback() -> AuthorizationCodeResult:
        answer = await listener.answer()
        secrets.found.add(answer.code)
        if answer.error:
            metadata = provider.context.oauth_metadata
            if answer.iss is not None and metadata and answer.iss != str(metadata.issuer):
                raise SignInFailed(f"the answer is of another issuer: {secrets.mask(answer.iss)}")
            said = f": {answer.description}" if answer.description else ""
            raise SignInFailed(
                secrets.mask(f"the authorization server answered {answer.error}{said}")
            )
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.iss)

    granted = " ".join(order.granted)
    before = OAuthToken(access_token="-", scope=granted) if granted else None
    storage = _Storage(before, _known(client, order.client_issuer))
    metadata = OAuthClientMetadata(
        client_name=CLIENT_NAME,
        redirect_uris=[AnyUrl(listener.redirect_uri)],
        application_type="native",
    )
    try:
        provider = _Provider(
            order.url,
            metadata,
            storage,
            redirect,
            callback,
            client_metadata_url=order.client_metadata_url or None,
        )
    except ValueError:
        raise SignInFailed("client_metadata_url must be an https address with a path") from None
    provider.callback_host = listener.host
    provider.scopes = order.scopes
    provider.is_step_up = order.status == 403
    return provider


def _known(client: Client | None, issuer: str) -> OAuthClientInformationFull | None:
    if client is None:
        return None
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.client_secret or None,
        token_endpoint_auth_method=client.method if client.kind == "registered" else None,
        issuer=issuer or None,
    )


async def _drive(
    provider: _Provider, sender: Sender, url: str, status: int, challenge: str, secrets: Secrets
) -> str:
    """Run the provider's flow until it has a token; return the account, where that is said."""
    request = httpx2.Request("POST", url)
    flow = provider.async_auth_flow(request)
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    response = httpx2.Response(status, headers=headers, request=request)
    account = ""
    try:
        await anext(flow)
        while True:
            outgoing = await flow.asend(response)
            if outgoing is request:
                return account
            response = await sender.send(outgoing)
            if outgoing.method == "GET":
                _prefer_no_secret(provider, response)
                continue
            if response.status_code not in _DONE:
                raise SignInFailed(_refusal(provider, outgoing, response, secrets))
            account = _account(response) or account
    except AddressRefused as error:
        raise SignInFailed(secrets.mask(str(error))) from None
    except (OAuthFlowError, OAuthRegistrationError) as error:
        is_plain = type(error) in (OAuthFlowError, OAuthRegistrationError)
        text = str(error) if is_plain else "the token endpoint did not answer with a token"
        raise SignInFailed(secrets.mask(text)) from None
    except (ValidationError, UnicodeDecodeError):
        raise SignInFailed("an answer of the authorization server is not as OAuth has it") from None
    except StopAsyncIteration:
        raise SignInFailed("the server does not ask for a sign-in") from None
    finally:
        with contextlib.suppress(Exception):
            await flow.aclose()


def _prefer_no_secret(provider: _Provider, response: httpx2.Response) -> None:
    """Register as a client without a secret where the authorization server takes such."""
    if response.status_code != 200:
        return
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        if "none" in json.loads(response.content).get("token_endpoint_auth_methods_supported", ()):
            provider.context.client_metadata.token_endpoint_auth_method = "none"


def _refusal(
    provider: _Provider, request: httpx2.Request, response: httpx2.Response, secrets: Secrets
) -> str:
    error = description = ""
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        said = json.loads(response.content)
        error, description = str(said.get("error") or ""), str(said.get("error_description") or "")
    form = parse_qs(request.content.decode("latin-1"))
    for name in ("code", "code_verifier", "client_secret", "refresh_token"):
        secrets.found |= {*form.get(name, ())}
    told = f"{response.status_code}{f', {error}' if error else ''}"
    told += f": {description}" if description else ""
    if provider.context.client_info is None:
        return secrets.mask(
            f"the authorization server does not register clients ({told}); "
            f"register one there for http://{provider.callback_host}:PORT/callback, and name it "
            f"in the entry: client_id and redirect_port of auth"
        )
    return secrets.mask(f"the authorization server gave no token ({told})")


def _account(response: httpx2.Response) -> str:
    """Return as whom somebody signed in, where the answer has an identity token.

    Source: OpenID Connect Core 1.0, section 3.1.3.7: it comes from the token endpoint itself, over
    TLS, so its signature need not be checked. It is only shown.
    """
    with contextlib.suppress(ValueError, AttributeError, TypeError, LookupError):
        part = str(json.loads(response.content)["id_token"]).split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        for name in ("email", "preferred_username", "name", "sub"):
            value = claims.get(name)
            if isinstance(value, str) and value.strip():
                return "".join(c for c in value if c.isprintable())[:100]
    return ""


def _signed_in(
    provider: _Provider, order: SignIn, client: Client | None, listener: Listener, account: str
) -> SignedIn:
    context = provider.context
    tokens, known = context.current_tokens, context.client_info
    if tokens is None or known is None:
        raise SignInFailed("the authorization server gave no token")
    kind = "configured" if client is not None else "registered"
    if order.client_metadata_url and known.client_id == order.client_metadata_url:
        kind = "document"
    return SignedIn(
        discovered=provider.discovered(),
        client=Client(
            client_id=known.client_id,
            client_secret=known.client_secret or "",
            method=known.token_endpoint_auth_method or "none",
            redirect_uri=listener.redirect_uri,
            kind=client.kind if client is not None and kind == "configured" else kind,  # type: ignore[arg-type]
            secret_expires=float(known.client_secret_expires_at or 0),
        ),
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or "",
        expires_in=None if tokens.expires_in is None else float(tokens.expires_in),
        scopes=tuple((tokens.scope or "").split()),
        account=account,
    )
