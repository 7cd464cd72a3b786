"""The sign-ins of a daemon, without the daemon: requests are sent as its transport does."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcpd.config.remote import AuthConfig, RemoteConfig
from mcpd.core import facts
from mcpd.core.facts import Failure
from mcpd.schemas.channel import Process
from mcpd.signin import credentials
from mcpd.signin.authorizer import OAuthAuthorizer
from mcpd.signin.credentials import Client, Credentials
from mcpd.signin.signins import SignIns
from mcpd.upstreams.http.authorizer import CannotAuthorize, Refused
from tests.support.fakeauth import FakeAuth, browse

PIDS: list[int] = []


NONE = "keyring.backends.fail.Keyring"


def spawn(argv: list[str], environment: tuple[str, ...], *, backend: str = NONE) -> Process:
    """Start the process for signing in, with this back end of its keyring."""
    env = {name: os.environ[name] for name in environment if name in os.environ}
    env |= {"PYTHON_KEYRING_BACKEND": backend}
    popen = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("SHOW") else subprocess.DEVNULL,
        bufsize=0,
        env=env,
    )
    PIDS.append(popen.pid)
    assert popen.stdin and popen.stdout
    stdin, stdout = os.dup(popen.stdin.fileno()), os.dup(popen.stdout.fileno())
    popen.stdin.close()
    popen.stdout.close()

    def kill() -> None:
        popen.kill()
        popen.wait()

    return Process(popen.pid, stdin, stdout, kill)


class MemoryKeyring:
    """A keyring that is none, unless it is made to work."""

    def __init__(self, *, works: bool = False) -> None:
        self.works = works
        self.drops = False
        """Whether it forgets what it takes."""
        self.kept: dict[str, str] = {}

    async def is_usable(self) -> bool:
        return self.works

    async def get(self, name: str) -> str | None:
        return self.kept.get(name)

    async def set(self, name: str, value: str) -> bool:
        if self.works and not self.drops:
            self.kept[name] = value
            return True
        return False

    async def delete(self, name: str) -> None:
        self.kept.pop(name, None)


class Home:
    """The sign-ins of one state directory, as a daemon has them."""

    def __init__(
        self, state_dir: Path, auth: FakeAuth, keyring: MemoryKeyring | None = None, **more: Any
    ) -> None:
        self.state_dir = state_dir
        self.told: list[facts.SignedIn] = []
        self.troubles: list[str] = []
        self.auth = auth
        self.signins = SignIns(
            str(state_dir),
            spawn=spawn,
            connect=self.connect,
            tell=self.told.append,
            trouble=lambda _, why: self.troubles.append(why),
            keyring=MemoryKeyring() if keyring is None else keyring,
        )
        self.entry(**more)

    def entry(self, **more: Any) -> None:
        """Write the entry of the server."""
        self.remote = RemoteConfig(url=self.auth.url, auth=AuthConfig(**more))

    def again(self) -> Home:
        """Return the sign-ins of the next daemon in the same place."""
        made = Home(self.state_dir, self.auth)
        made.remote = self.remote
        return made

    async def signed_in(self, age: float = 0.0) -> Credentials:
        """Keep a sign-in, as if somebody had signed in ``age`` seconds ago."""
        given = self.auth.give("read")
        now = credentials.now() - age
        made = Credentials(
            server="far",
            url=self.auth.url,
            issuer=self.auth.issuer,
            token_endpoint=f"{self.auth.origin}/token",
            revocation_endpoint=f"{self.auth.origin}/revoke",
            resource=self.auth.url,
            client=Client(client_id="registered-0", kind="registered"),
            scopes=("read",),
            challenge=self.auth.challenge,
            access_token=given["access_token"],
            obtained=now,
            expires=now + given["expires_in"] if "expires_in" in given else None,
            refresh_token=given.get("refresh_token", ""),
        )
        await self.signins.store.save(made)
        return made

    @property
    def authorizer(self) -> OAuthAuthorizer:
        """Return what authorises requests to the server."""
        return self.signins.authorizer("far", self.remote)

    async def request(self) -> str:
        """Send a request as the transport does; return the token that was taken."""
        for _ in range(2):
            headers = await self.authorizer.headers()
            token = headers.get("Authorization", "").removeprefix("Bearer ")
            if token in self.auth.access:
                return token
            await self.authorizer.refused(headers, Refused(401, self.auth.challenge))
        raise AssertionError("refused twice")

    async def failure(self) -> Failure:
        """Send a request that cannot be authorised; return why."""
        with pytest.raises(CannotAuthorize) as raised:
            await self.request()
        return raised.value.failure

    async def connect(self, _name: str) -> Failure | None:
        try:
            await self.request()
        except CannotAuthorize as error:
            return error.failure
        return None


async def sign_in(home: Home) -> Credentials:
    """Sign in, with a browser that follows redirects."""
    login, is_mine = home.signins.logins.begin(home.authorizer)
    address = await login.address
    assert is_mine and address is not None, await login.outcome
    status, _, _ = await asyncio.to_thread(browse, address)
    assert status == 200
    found = await login.outcome
    assert isinstance(found, Credentials), found
    return found
