"""Lets people sign in: one sign-in for everybody who asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from mcpd import tasks
from mcpd.core.facts import Failure
from mcpd.signin.authorizer import OAuthAuthorizer
from mcpd.signin.credentials import Credentials
from mcpd.signin.file import StoreError
from mcpd.signin.process import OrderFailed, Running, Spawn
from mcpd.signin.protocol import SignedIn
from mcpd.signin.store import Store

PASTE_S: Final = 1.0
"""Seconds in which an address that is pasted is refused, if it is."""

SETTLE_S: Final = 15.0
"""Seconds that a sign-in waits for the server to be ready with it."""


class NotNeeded(msgspec.Struct, frozen=True):
    """Nobody needs to sign in; ``reason`` says why, for people."""

    reason: str


Outcome = Credentials | NotNeeded | Failure
"""How a sign-in ends."""

Connect = Callable[[str], Awaitable[Failure | None]]
"""Connects to the server of a name, as ``mcpctl start`` does; returns why it failed."""


class Login:
    """One sign-in in progress."""

    def __init__(self, server: str) -> None:
        loop = asyncio.get_running_loop()
        self.server: Final = server
        self.address: asyncio.Future[str | None] = loop.create_future()
        """What a person is to open; ``None`` where the outcome came first."""
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.running: Running | None = None

    def finish(self, outcome: Outcome) -> None:
        """Set how it ended."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)
        if not self.address.done():
            self.address.set_result(None)


class Logins:
    """The sign-ins of a daemon."""

    def __init__(self, store: Store, spawn: Spawn, connect: Connect) -> None:
        self._store = store
        self._spawn = spawn
        self._connect = connect
        self._open: dict[str, Login] = {}
        self._group = tasks.Group()

    def get(self, server: str) -> Login | None:
        """Return the sign-in in progress of a server."""
        return self._open.get(server)

    def begin(self, authorizer: OAuthAuthorizer) -> tuple[Login, bool]:
        """Return the sign-in of a server, and whether it was begun by this call."""
        name = authorizer.server
        found = self._open.get(name)
        if found is not None:
            return found, False
        login = self._open[name] = Login(name)
        self._group.spawn(self._run(login, authorizer), name=f"login {name}")
        return login, True

    async def paste(self, server: str, address: str) -> Failure | None:
        """Give the address to a sign-in at which the browser ended; return why it was refused."""
        login = self._open.get(server)
        if login is None or login.running is None:
            return _failed(server, "nobody is signing in to it")
        refused = login.running.paste(address)
        await asyncio.wait(
            (refused, login.outcome), timeout=PASTE_S, return_when=asyncio.FIRST_COMPLETED
        )
        return _failed(server, refused.result()) if refused.done() else None

    async def close(self) -> None:
        """End the sign-ins that are in progress."""
        for login in list(self._open.values()):
            if login.running is not None:
                login.running.end("the daemon is ending")
        await self._group.close()

    async def _run(self, login: Login, authorizer: OAuthAuthorizer) -> None:
        outcome: Outcome = _failed(login.server, "the sign-in was given up")
        try:
            outcome = await self._sign_in(login, authorizer)
        except (OrderFailed, StoreError) as error:
            outcome = _failed(login.server, str(error))
        finally:
            if self._open.get(login.server) is login:
                del self._open[login.server]
            login.finish(outcome)

    async def _sign_in(self, login: Login, authorizer: OAuthAuthorizer) -> Outcome:
        name = login.server
        await self._store.prepare()  # before a token is there that cannot be kept
        if await authorizer.reload():
            found = authorizer.credentials
            await self._settle(name)
            return NotNeeded(f"{name} is signed in") if found is None else found
        if authorizer.is_machine or not authorizer.was_asked:
            failure = await self._connect(name)
            if failure is not None and failure.kind != "login_required":
                return failure
            if authorizer.is_machine:
                return NotNeeded(f"{name} needs nobody: its client has rights of its own")
            if not authorizer.was_asked and authorizer.remote.auth.kind == "auto":
                return NotNeeded(f"{name} does not ask for a sign-in")
        order = await authorizer.order()
        login.running = Running(self._spawn, order, SignedIn)
        try:
            login.address.set_result(await login.running.address)
            result = await login.running.result
        finally:
            login.running.end()
        found = await authorizer.signed_in(result)
        await self._settle(name)
        return found

    async def _settle(self, name: str) -> None:
        """Have the server connect with the token; how that ends is its own affair."""
        waiting = tasks.spawn(_ignore(self._connect(name)), name=f"login.connect {name}")
        await asyncio.wait((waiting,), timeout=SETTLE_S)


async def _ignore(work: Awaitable[Failure | None]) -> None:
    await work


def _failed(server: str, why: str) -> Failure:
    return Failure(
        kind="login_failed",
        message=f"signing in to {server} failed: {why}",
        server=server,
        hint=f"mcpctl login {server}",
    )
