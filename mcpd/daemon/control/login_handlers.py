"""Handles the control methods by which people sign in to servers, and out of them."""

from __future__ import annotations

import asyncio

from mcpd.api import requests as api
from mcpd.api import results
from mcpd.config.remote import RemoteConfig
from mcpd.core.facts import Failure
from mcpd.daemon.servers.control import ServerControl
from mcpd.daemon.servers.secrets import ServerSecrets
from mcpd.signin import credentials
from mcpd.signin.credentials import Credentials
from mcpd.signin.file import StoreError
from mcpd.signin.logins import NotNeeded
from mcpd.signin.signins import SignIns
from mcpd.upstreams.http.spec import RemoteSpec


class LoginHandlers:
    """Sign-ins as control requests. Who leaves while one is in progress does not end it."""

    def __init__(self, operator: ServerControl, signins: SignIns, secrets: ServerSecrets) -> None:
        self._operator = operator
        self._signins = signins
        self._secrets = secrets

    async def login(self, params: api.LoginParams) -> results.Login | Failure:
        """Begin or join a sign-in; return what a person is to open."""
        remote = await self._remote(params.server)
        if isinstance(remote, Failure):
            return remote
        logins = self._signins.logins
        login, is_mine = logins.begin(self._signins.authorizer(params.server, remote))
        url = await asyncio.shield(login.address)
        if url is not None:
            return {"server": params.server, "url": url, "joined": not is_mine}
        outcome = await asyncio.shield(login.outcome)
        match outcome:
            case Failure():
                return outcome
            case NotNeeded():
                return {"server": params.server, "reason": outcome.reason}
            case Credentials():
                return {"server": params.server, "signed_in": signed_in(outcome)}

    async def wait(self, params: api.LoginParams) -> results.SignedIn | Failure:
        """Wait for the end of a sign-in."""
        remote = await self._remote(params.server)
        if isinstance(remote, Failure):
            return remote
        login = self._signins.logins.get(params.server)
        if login is None:
            found = self._signins.authorizer(params.server, remote).credentials
            if found is not None and found.access_token:
                return signed_in(found)
            return _nobody(params.server)
        outcome = await asyncio.shield(login.outcome)
        if isinstance(outcome, NotNeeded):
            return _nobody(params.server)
        return outcome if isinstance(outcome, Failure) else signed_in(outcome)

    async def paste(self, params: api.PasteParams) -> results.Pasted | Failure:
        """Take the address at which a browser ended that could not reach this machine."""
        failure = await self._signins.logins.paste(params.server, params.address)
        return {} if failure is None else failure

    async def logout(self, params: api.LoginParams) -> results.LoggedOut | Failure:
        """Revoke and forget the tokens of a server, and end its session."""
        remote = await self._remote(params.server)
        if isinstance(remote, Failure):
            return remote
        try:
            revoked = await self._signins.authorizer(params.server, remote).sign_out()
        except StoreError as error:
            return Failure("login_failed", error.message, params.server, hint=error.hint)
        await self._operator.restart_running(params.server)
        return {"server": params.server, "revoked": revoked}

    async def _remote(self, name: str) -> RemoteConfig | Failure:
        """Return how a server is reached, or why nobody can sign in to it."""
        found = await self._operator.usable((name,))
        if isinstance(found, Failure):
            return found
        server = found[0]
        spec = server.backend
        if not isinstance(spec, RemoteSpec):
            return Failure("unsupported", f"{name} is a process: nobody signs in to it", name)
        if not spec.remote.can_sign_in:
            kind = spec.remote.auth.kind
            why = (
                f"its auth is {kind}" if kind not in ("auto", "oauth") else "it has a header for it"
            )
            return Failure("unsupported", f"nobody signs in to {name}: {why}", name)
        usable = await self._secrets.filled(spec)
        return usable if isinstance(usable, Failure) else usable.remote


def signed_in(found: Credentials) -> results.SignedIn:
    """Return a sign-in as people and programs may see it."""
    return {
        "server": found.server,
        "account": found.account or None,
        "issuer": found.issuer,
        "scopes": list(found.scopes),
        "expires": None if found.expires is None else credentials.stamp(found.expires),
        "renews": bool(found.refresh_token),
    }


def _nobody(server: str) -> Failure:
    return Failure(
        "login_failed", f"nobody is signing in to {server}", server, hint=f"mcpctl login {server}"
    )
