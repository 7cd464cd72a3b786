"""Sign-ins and secrets of servers: built, and imported, for the first server that needs them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from mcpd.core.facts import Failure, SignedIn
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.workers import processes
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.http.authorizer import Authorizer
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.http.static import StaticAuthorizer

if TYPE_CHECKING:
    from mcpd.secrets.lookup import Lookup
    from mcpd.signin.process import Spawn
    from mcpd.signin.signins import SignIns


class Credentials:
    """What authorises requests to servers, and finds the secrets that entries name."""

    def __init__(
        self,
        state_dir: str,
        *,
        registry: Registry,
        reaper: Reaper,
        connect: Callable[[str], Awaitable[Failure | None]],
        tell: Callable[[SignedIn], None],
        trouble: Callable[[str, str], None],
    ) -> None:
        """``connect`` connects to a server, and returns why it cannot be used."""
        self._state_dir = state_dir
        self._registry = registry
        self._reaper = reaper
        self._connect = connect
        self._tell = tell
        self._trouble = trouble

    @cached_property
    def lookup(self) -> Lookup:
        """What finds secrets; made, and imported, for the first server that names one."""
        from mcpd.secrets.lookup import Lookup
        from mcpd.secrets.places import KEYRING_S, SERVICE
        from mcpd.signin.process import KeyringProcess

        return Lookup(
            self._state_dir,
            env=os.environ,
            mode=lambda: self._registry.loaded.trust.keyring,
            keyring=KeyringProcess(self._worker, SERVICE, KEYRING_S),
        )

    @cached_property
    def signins(self) -> SignIns:
        """Who is signed in to remote servers; made, and imported, for the first of them."""
        from mcpd.signin.signins import SignIns

        return SignIns(
            self._state_dir,
            spawn=self._worker,
            connect=self._connect,
            tell=self._tell,
            trouble=self._trouble,
        )

    def authorizer(self, spec: RemoteSpec) -> Authorizer:
        """Return what authorises the requests to a server."""
        if spec.remote.can_sign_in:
            return self.signins.authorizer(spec.server, spec.remote)
        return StaticAuthorizer(spec.server, spec.remote.auth)

    def auth(self, server: str) -> str | None:
        """Return how a sign-in authorises requests to a server; ``None`` where none does."""
        return self.signins.describe(server) if "signins" in vars(self) else None

    async def end_logins(self) -> None:
        """End the sign-ins that are in progress."""
        if "signins" in vars(self):
            await self.signins.close()

    @property
    def _worker(self) -> Spawn:
        """Starts the process for the keyring and for signing in."""
        return lambda argv, names: processes.spawn(self._reaper, argv, names)
