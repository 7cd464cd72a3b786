"""All sign-ins of a daemon: the authorizer of each server, and who is signing in."""

from __future__ import annotations

import os
from collections.abc import Callable

from mcpd import paths
from mcpd.config.remote import RemoteConfig
from mcpd.core import facts
from mcpd.signin.authorizer import OAuthAuthorizer, SendPost
from mcpd.signin.logins import Connect, Logins
from mcpd.signin.post import post
from mcpd.signin.process import KeyringProcess, Spawn
from mcpd.signin.store import Keyring, Store

SERVICE = "mcpd"
"""The name under which a keyring shows what is ours."""


class SignIns:
    """The sign-ins of one state directory."""

    def __init__(
        self,
        state_dir: str,
        *,
        spawn: Spawn,
        connect: Connect,
        tell: Callable[[facts.SignedIn], None],
        trouble: Callable[[str, str], None],
        send: SendPost = post,
        keyring: Keyring | None = None,
    ) -> None:
        """``trouble`` gets a server and why its sign-in could not be kept or read.

        ``keyring`` is that of the operating system, unless it is given.
        """
        own = KeyringProcess(spawn, _service(state_dir)) if keyring is None else keyring
        self.store = Store(state_dir, own)
        self.logins = Logins(self.store, spawn, connect)
        self._spawn = spawn
        self._tell = tell
        self._trouble = trouble
        self._send = send
        self._authorizers: dict[str, OAuthAuthorizer] = {}

    def authorizer(self, server: str, remote: RemoteConfig) -> OAuthAuthorizer:
        """Return what authorises requests to a server: the same one until its entry changes."""
        found = self._authorizers.get(server)
        if found is None or found.remote != remote:
            found = self._authorizers[server] = OAuthAuthorizer(
                server,
                remote,
                store=self.store,
                spawn=self._spawn,
                post=self._send,
                tell=self._tell,
                trouble=self._trouble,
            )
        return found

    def describe(self, server: str) -> str | None:
        """Return what ``status`` shows of a server; ``None`` for one that was never used."""
        found = self._authorizers.get(server)
        return None if found is None else found.describe()

    async def close(self) -> None:
        """End what is in progress."""
        await self.logins.close()


def _service(state_dir: str) -> str:
    """Return the name in the keyring; each state directory has its own sign-ins."""
    env = {name: value for name, value in os.environ.items() if name != "MCPD_STATE_DIR"}
    is_usual = os.path.abspath(state_dir) == paths.state_dir(env)
    return SERVICE if is_usual else f"{SERVICE} {state_dir}"
