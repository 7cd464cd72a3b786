"""Authorises the requests to one server with the token of a sign-in, which is renewed in time.

Only the daemon renews, and once for all requests that need it. A renewed token is on disk before it
is used, and a refresh token is noted as spent before it is sent: servers that rotate them take a
second use for a theft, and end the whole sign-in. The module is long because each step of a renewal
reads and changes the same sign-in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from mcpd import tasks
from mcpd.config.remote import RemoteConfig
from mcpd.core import facts
from mcpd.core.facts import Failure
from mcpd.signin import credentials, failures, signing, token_requests
from mcpd.signin.credentials import Client, Credentials, digest_of
from mcpd.signin.file import StoreError
from mcpd.signin.process import DISCOVERY_S, OrderFailed, Spawn, carry_out
from mcpd.signin.protocol import Connection, Discover, Discovered, SignedIn, SignIn
from mcpd.signin.store import Store
from mcpd.signin.token_requests import Denied, Post, Reply, Tokens, Unanswered
from mcpd.upstreams.http import challenges
from mcpd.upstreams.http.authorizer import CannotAuthorize, Refused

FIRST_DELAY_S: Final = 1.0
MOST_DELAY_S: Final = 60.0
"""Between two requests to a token endpoint that does not answer."""

HEADER: Final = "Authorization"

UNKNOWN_CLIENT: Final = ("invalid_client", "unauthorized_client")

SendPost = Callable[[Post, RemoteConfig], Awaitable[Reply | Unanswered]]


class OAuthAuthorizer:
    """An ``Authorizer`` for OAuth. It has the sign-in of one server in memory.

    Invariant: at most one request to the token endpoint is in flight.
    """

    def __init__(
        self,
        server: str,
        remote: RemoteConfig,
        *,
        store: Store,
        spawn: Spawn,
        post: SendPost,
        tell: Callable[[facts.SignedIn], None],
        trouble: Callable[[str, str], None],
    ) -> None:
        """``trouble`` gets the server and why its sign-in could not be kept or read."""
        self.server: Final = server
        self.remote: Final = remote
        self._auth = remote.auth
        self._store = store
        self._spawn = spawn
        self._post = post
        self._tell = tell
        self._trouble = trouble
        self._credentials: Credentials | None = None
        self._is_loaded = False
        self._loading = asyncio.Lock()
        self._renewal: asyncio.Task[Credentials | Failure] | None = None
        self._challenge = ""
        self._was_asked = False
        self._needs_login: Failure | None = None
        self._denied: Failure | None = None
        """Why the configured client gets no token; nothing is tried until the entry changes."""
        self._wanted: tuple[str, ...] = ()
        """Scopes that a machine asks for, after the server wanted more."""
        self._asked: tuple[str, ...] = ()
        """Scopes that it has asked for with the present token."""
        self._unkept: tuple[Credentials, Credentials] | None = None
        """What is on disk, and the renewed sign-in that could not be written in its place."""
        self._lost = ""
        """The digest of a refresh token whose use was not answered: of this process, so known."""
        self._delay_s = FIRST_DELAY_S
        self._retry_at = 0.0
        self._unanswered: Failure | None = None

    # -- for requests ------------------------------------------------------------------------------

    @property
    def is_machine(self) -> bool:
        """Whether no person signs in: the client has rights of its own."""
        return self._auth.grant == "client_credentials"

    async def headers(self) -> dict[str, str]:
        """Return the headers of a request; none before the server has asked for a token."""
        found = await self._known()
        if self._denied is not None:
            raise CannotAuthorize(self._denied)
        if found is None:
            return {}
        now = credentials.now()
        if found.is_due(now) and (self.is_machine or found.can_refresh):
            renewed = await self._renew(found.access_token)
            if isinstance(renewed, Credentials):
                found = renewed
            elif not (renewed.is_retryable and found.is_valid(now)):
                raise CannotAuthorize(renewed)
        if not found.access_token:
            raise CannotAuthorize(self._login_required())
        return _bearer(found)

    async def refused(self, sent: dict[str, str], refused: Refused) -> None:
        """Renew the token that a 401 refused, or ask for the scopes that a 403 wants."""
        found = await self._known()
        challenge = refused.challenge[: challenges.MOST_CHARACTERS]
        is_current = found is None or sent.get(HEADER) == _bearer(found).get(HEADER)
        if refused.status == 403:
            await self._forbidden(challenge, found, is_current=is_current)
            return
        self._was_asked = True
        self._challenge = challenge or self._challenge
        if found is not None and not is_current:
            return  # it was renewed while this request was on its way
        if self._denied is not None:
            raise CannotAuthorize(self._denied)
        if not self.is_machine and (found is None or not found.refresh_token):
            raise CannotAuthorize(self._login_required())
        renewed = await self._renew("" if found is None else found.access_token)
        if isinstance(renewed, Failure):
            raise CannotAuthorize(renewed)

    def describe(self) -> str:
        """Return how requests are authorised, as ``status`` shows it."""
        found = self._credentials
        if found is not None and found.access_token:
            if found.expires is None:
                return "oauth: signed in"
            return f"oauth: signed in until {credentials.stamp(found.expires)}"
        if self._auth.kind == "auto" and not self._was_asked and found is None:
            return "none"
        return "oauth: client_credentials" if self.is_machine else "oauth: not signed in"

    # -- for logins --------------------------------------------------------------------------------

    @property
    def was_asked(self) -> bool:
        """Whether the server has asked for a token, now or at the sign-in."""
        return self._was_asked or self._credentials is not None

    @property
    def credentials(self) -> Credentials | None:
        """The sign-in in memory. Secret: never shown."""
        return self._credentials

    @property
    def challenge(self) -> str:
        """The last challenge that asked for a token."""
        found = self._credentials
        return self._challenge or ("" if found is None else found.challenge)

    async def reload(self) -> bool:
        """Read the sign-in again; return whether it has become usable.

        A keyring may have been locked before.
        """
        before = await self._known()
        was_usable = before is not None and bool(before.access_token)
        self._is_loaded = False
        found = await self._known()
        return not was_usable and found is not None and bool(found.access_token)

    async def order(self) -> SignIn:
        """Return the order for the sign-in of a person."""
        found, auth = await self._known(), self._auth
        client, issuer = self._configured(), ""
        if client is None and found is not None and found.client.kind == "registered":
            ends = found.client.secret_expires
            if not ends or ends > credentials.now():
                client, issuer = found.client, found.issuer
        challenge = self.challenge
        step_up = "" if found is None else found.step_up
        return SignIn(
            server=self.server,
            url=self.remote.url,
            status=403 if step_up else 401,
            challenge=challenges.with_metadata_of(step_up, challenge) if step_up else challenge,
            connection=_connection(self.remote),
            client=client,
            client_issuer=issuer,
            client_metadata_url=auth.client_metadata_url,
            scopes=auth.scopes,
            granted=() if found is None else found.scopes,
            redirect_port=auth.redirect_port,
            callback_host=auth.callback_host,
            authorize_params=auth.authorize_params,
        )

    async def signed_in(self, result: SignedIn) -> Credentials:
        """Keep the result of a sign-in, and use it from now on.

        Raises:
            StoreError: it cannot be kept.
        """
        discovered = result.discovered
        now = credentials.now()
        client = result.client
        if client.kind == "configured":
            client = msgspec.structs.replace(client, client_secret="")
        made = Credentials(
            server=self.server,
            url=self.remote.url,
            issuer=discovered.issuer,
            token_endpoint=discovered.token_endpoint,
            revocation_endpoint=discovered.revocation_endpoint,
            resource=discovered.resource,
            client=client,
            scopes=result.scopes,
            challenge=self.challenge,
            account=result.account,
            access_token=result.access_token,
            obtained=now,
            expires=None if result.expires_in is None else now + result.expires_in,
            refresh_token=result.refresh_token,
        )
        async with self._store.locked(self.server):  # a renewal under way would replace it
            await self._store.save(made)
            self._take(made)
        until = None if made.expires is None else credentials.stamp(made.expires)
        self._tell(facts.SignedIn(self.server, made.issuer, until))
        return made

    async def sign_out(self) -> bool:
        """Revoke the tokens where that can be done, and forget them; return whether it was done.

        Raises:
            StoreError: the file cannot be written.
        """
        async with self._store.locked(self.server):  # a renewal under way would bring it back
            found = await self._stored()
            revoked = found is not None and await self._revoke(found)
            await self._store.forget(self.server)
            self._credentials = self._unkept = None
            self._is_loaded = True
            self._needs_login = self._denied = None
            self._wanted = ()
        return revoked

    async def _revoke(self, found: Credentials) -> bool:
        revoked = False
        pairs = ((found.refresh_token, "refresh_token"), (found.access_token, "access_token"))
        for token, hint in pairs:
            if token and found.revocation_endpoint:
                request = token_requests.revocation(found, self._client(found), token, hint)
                reply = await self._post(request, self.remote)
                revoked |= isinstance(reply, Reply) and reply.status == 200
        return revoked

    # -- inside ------------------------------------------------------------------------------------

    async def _known(self) -> Credentials | None:
        if self._is_loaded:
            return self._credentials
        async with self._loading:
            if not self._is_loaded:
                try:
                    found = await self._store.load(self.server, self.remote.url)
                except StoreError as error:
                    self._trouble(self.server, error.message)
                    found = None
                self._credentials = found if self._fits(found) else None
                self._is_loaded = True
        return self._credentials

    async def _stored(self) -> Credentials | None:
        """Return the sign-in on disk, or the renewed one that could not be written there.

        That is tried again, unless somebody else has written meanwhile. Call it under the lock.

        Raises:
            StoreError: the file cannot be read.
        """
        found = await self._store.load(self.server, self.remote.url)
        if self._unkept is not None:
            before, made = self._unkept
            if found is not None and found.secrets == before.secrets:
                await self._save(found, made)
                found = made
            else:
                self._unkept = None
        return found if self._fits(found) else None

    async def _save(self, before: Credentials, made: Credentials) -> None:
        """Keep a renewed sign-in. A disk that is full does not end it."""
        try:
            await self._store.save(made)
            self._unkept = None
        except StoreError as error:
            self._unkept = (before if self._unkept is None else self._unkept[0], made)
            self._trouble(self.server, error.message)

    def _fits(self, found: Credentials | None) -> bool:
        """Tell whether a sign-in is of the client that the entry names now."""
        named = self._auth.client_id
        return found is not None and (not named or found.client.client_id == named)

    def _take(self, found: Credentials) -> None:
        self._credentials = found
        self._is_loaded = True
        self._needs_login = self._denied = self._unanswered = None
        self._delay_s, self._retry_at, self._lost = FIRST_DELAY_S, 0.0, ""

    async def _renew(self, stale: str) -> Credentials | Failure:
        """Return a token other than ``stale``; all who need one wait for the same request."""
        found = self._credentials
        if found is not None and found.access_token != stale and found.access_token:
            return found
        if self._unanswered is not None and asyncio.get_running_loop().time() < self._retry_at:
            return self._unanswered
        if self._renewal is None:
            self._renewal = tasks.spawn(self._renew_once(stale), name=f"signin {self.server}")
            self._renewal.add_done_callback(self._renewed)
        return await asyncio.shield(self._renewal)

    def _renewed(self, _: object) -> None:
        self._renewal = None

    async def _renew_once(self, stale: str) -> Credentials | Failure:
        try:
            async with self._store.locked(self.server):
                found = await self._stored()
                if found is not None and found.access_token not in ("", stale):
                    self._take(found)  # another daemon has renewed it
                    return found
                if self.is_machine:
                    return await self._grant(found)
                if found is None or not found.refresh_token:
                    self._credentials = found
                    return self._login_required()
                return await self._refresh(found)
        except StoreError as error:
            self._trouble(self.server, error.message)
            return self._later(f"its sign-in cannot be renewed: {error.message}")

    async def _refresh(self, found: Credentials) -> Credentials | Failure:
        digest = digest_of(found.refresh_token)
        if not found.can_refresh and self._lost != digest:
            return self._login_required("the last renewal was interrupted, and may not be repeated")
        if not found.is_kept:
            found = msgspec.structs.replace(found, spent=digest)
            await self._store.mark(found)
        reply = await self._post(token_requests.refresh(found, self._client(found)), self.remote)
        outcome = reply if isinstance(reply, Unanswered) else token_requests.read(reply)
        match outcome:
            case Tokens():
                return await self._keep(found, outcome, found.scopes)
            case Unanswered():
                if outcome.is_lost:
                    self._lost = digest
                elif not found.is_kept:  # it was not used, so the next daemon may use it
                    await self._store.mark(msgspec.structs.replace(found, spent=""))
                return self._later(f"its token cannot be renewed: {outcome.reason}")
            case Denied():
                return await self._refresh_denied(found, outcome.error)

    async def _refresh_denied(self, found: Credentials, error: str) -> Failure:
        if error in UNKNOWN_CLIENT and found.client.kind == "configured":
            self._denied = failures.client_refused(self.server, error)
            return self._denied
        gone = msgspec.structs.replace(
            found, access_token="", refresh_token="", expires=None, spent=""
        )
        if error in UNKNOWN_CLIENT:
            unknown = msgspec.structs.replace(gone.client, kind="document", client_secret="")
            gone = msgspec.structs.replace(gone, client=unknown)  # registered again
        self._credentials = gone
        await self._store.save(gone)
        return self._login_required(f"the authorization server answered {error}")

    async def _grant(self, found: Credentials | None) -> Credentials | Failure:
        """Get a token for the client itself."""
        if found is None:
            discovered = await self._discover()
            if isinstance(discovered, Failure):
                return discovered
            found = discovered
        client = self._client(found)
        scopes = self._wanted or self._auth.scopes or found.scopes
        assertion = ""
        if self._auth.key_file:
            claims = token_requests.claims(client.client_id, found, credentials.now())
            try:
                assertion = await asyncio.to_thread(
                    signing.sign, claims, self._auth.key_file, self._auth.key_algorithm
                )
            except signing.KeyUnusable as error:
                self._denied = failures.unauthorized(self.server, str(error))
                return self._denied
        request = token_requests.client_credentials(found, client, scopes, assertion)
        reply = await self._post(request, self.remote)
        outcome = reply if isinstance(reply, Unanswered) else token_requests.read(reply)
        match outcome:
            case Tokens():
                self._asked = scopes
                return await self._keep(found, outcome, scopes)
            case Unanswered():
                return self._later(f"it gets no token: {outcome.reason}")
            case Denied(error="invalid_scope") if self._wanted:
                return self._scopes_refused(scopes)
            case Denied():
                self._denied = failures.client_refused(self.server, outcome.error)
                return self._denied

    async def _discover(self) -> Credentials | Failure:
        """Find the authorization server; the result has no tokens yet."""
        order = Discover(
            server=self.server,
            url=self.remote.url,
            challenge=self._challenge,
            connection=_connection(self.remote),
        )
        try:
            found = await carry_out(self._spawn, order, Discovered, DISCOVERY_S)
        except OrderFailed as error:
            return self._later(f"its authorization server was not found: {error}")
        method = "none"
        if self._auth.client_secret:
            is_post = "client_secret_post" in found.methods
            is_basic = not found.methods or "client_secret_basic" in found.methods
            method = "client_secret_post" if is_post and not is_basic else "client_secret_basic"
        return Credentials(
            server=self.server,
            url=self.remote.url,
            issuer=found.issuer,
            token_endpoint=found.token_endpoint,
            revocation_endpoint=found.revocation_endpoint,
            resource=found.resource,
            client=Client(client_id=self._auth.client_id, method=method),
            scopes=found.scopes,
            challenge=self._challenge,
        )

    async def _keep(
        self, before: Credentials, tokens: Tokens, asked: tuple[str, ...]
    ) -> Credentials:
        """Keep new tokens, then use them."""
        now = credentials.now()
        again = tokens.refresh_token or before.refresh_token
        made = msgspec.structs.replace(
            before,
            access_token=tokens.access_token,
            obtained=now,
            expires=None if tokens.expires_in is None else now + tokens.expires_in,
            refresh_token=again,
            is_kept=bool(again) and again == before.refresh_token,
            scopes=asked if tokens.scopes is None else tokens.scopes,
        )
        await self._save(before, made)
        self._take(made)
        return made

    async def _forbidden(
        self, challenge: str, found: Credentials | None, *, is_current: bool
    ) -> None:
        """Ask for more scopes, if a machine may; otherwise raise."""
        wanted = challenges.scopes(challenge)
        if challenges.parameter(challenge, "error") != "insufficient_scope":
            raise CannotAuthorize(failures.forbidden(self.server))
        if found is not None and self.is_machine:
            if not is_current:
                return
            if not {*wanted} <= {*self._asked}:
                await self._widen(found, wanted)
                return
        elif found is not None and found.step_up != challenge:
            self._credentials = msgspec.structs.replace(found, step_up=challenge)
            try:
                await self._store.mark(self._credentials)
            except StoreError as error:
                self._trouble(self.server, error.message)
        raise CannotAuthorize(self._scopes_refused(wanted))

    async def _widen(self, found: Credentials, wanted: tuple[str, ...]) -> None:
        """Get a token that was asked for with these scopes beside the earlier ones."""
        granted = self._wanted or found.scopes or self._auth.scopes
        self._wanted = tuple(dict.fromkeys((*granted, *wanted)))
        while not {*wanted} <= {*self._asked}:  # a renewal in progress may ask for less
            renewed = await self._renew(found.access_token)
            if isinstance(renewed, Failure):
                raise CannotAuthorize(renewed)
            found = renewed

    def _configured(self) -> Client | None:
        """Return the client that the entry names."""
        auth = self._auth
        if not auth.client_id:
            return None
        return Client(client_id=auth.client_id, client_secret=auth.client_secret)

    def _client(self, found: Credentials) -> Client:
        """Return the client of a sign-in; the secret of a configured one is in the entry alone."""
        if found.client.kind != "configured":
            return found.client
        return msgspec.structs.replace(
            found.client,
            client_id=self._auth.client_id or found.client.client_id,
            client_secret=self._auth.client_secret,
        )

    def _login_required(self, why: str = "") -> Failure:
        if self._needs_login is None or why:
            self._needs_login = failures.login_required(self.server, why)
        return self._needs_login

    def _scopes_refused(self, scopes: tuple[str, ...]) -> Failure:
        return failures.scopes_refused(self.server, scopes, is_machine=self.is_machine)

    def _later(self, text: str) -> Failure:
        """Return a failure that passes; until then the token endpoint is left alone."""
        self._retry_at = asyncio.get_running_loop().time() + self._delay_s
        self._delay_s = min(self._delay_s * 2, MOST_DELAY_S)
        self._unanswered = failures.unanswered(self.server, text)
        return self._unanswered


def _bearer(found: Credentials) -> dict[str, str]:
    return {HEADER: f"Bearer {found.access_token}"} if found.access_token else {}


def _connection(remote: RemoteConfig) -> Connection:
    return Connection(
        proxy=remote.proxy,
        ca_file=remote.ca_file,
        client_cert=remote.client_cert,
        client_key=remote.client_key,
    )
