"""Starts servers with the secrets that their entries name, which are looked up for each start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpd import tasks
from mcpd.core import facts
from mcpd.core.facts import Fact, Failure
from mcpd.upstreams.host import NotStarted, Reports, UpstreamHost
from mcpd.upstreams.run import Backend, Run, UnusableSecret
from mcpd.upstreams.slot import Slot

if TYPE_CHECKING:
    from mcpd.secrets.lookup import Lookup, NotFound

_Backend = TypeVar("_Backend", bound=Backend)

_Key = tuple[int, tuple[str, ...]]
"""Which starts share a look-up: those of equal names, after the same changes."""

_KIND: Final = {"keyring_locked": "spawn_failed", "keyring_unavailable": "spawn_failed"}


class ServerSecrets:
    """Looks up what servers need. What was found is masked from then on."""

    def __init__(
        self,
        lookup: Callable[[], Lookup],
        *,
        learned: Callable[[Mapping[str, str]], None],
        tell: Callable[[Fact], None],
    ) -> None:
        """``learned`` gets what was found, before any server does. ``lookup`` is made when needed.

        ``tell`` gets what cannot be used.
        """
        self.changes = 0
        """How often a secret was set: a look-up from before may have found the older value."""
        self._lookup = lookup
        self._learned = learned
        self._tell = tell

    async def find(self, names: Sequence[str]) -> dict[str, str] | NotFound:
        """Return secrets by their names, or why one of them cannot be used."""
        found = await self._lookup().find(names)
        if isinstance(found, dict):
            self._learned(found)
        return found

    async def filled(self, backend: _Backend) -> _Backend | Failure:
        """Return how to reach a server, with its secrets, or why it cannot be reached."""
        if not backend.secrets:
            return backend
        return self.fill(backend, await self.find(backend.secrets))

    def fill(self, backend: _Backend, found: dict[str, str] | NotFound) -> _Backend | Failure:
        """Return how to reach a server, with what ``find`` has found; tell what was not."""
        if isinstance(found, dict):
            return filled(backend, found)
        server = backend.server
        self._tell(facts.SecretUnavailable(server, found.name, found.reason, found.message))
        return _failure(server, found)


class WithSecrets:
    """A host whose servers are started with their secrets.

    A start waits until they are found; what was found is dropped when the starts that waited have
    had their chance.
    """

    def __init__(self, host: UpstreamHost[Any], secrets: ServerSecrets) -> None:
        self._host = host
        self._secrets = secrets
        self._found: dict[_Key, dict[str, str] | NotFound] = {}
        self._waiting: dict[_Key, set[Callable[[], None]]] = {}

    def must_wait(self, backend: Backend, then: Callable[[], None]) -> bool:
        """Return whether a start must wait; ``then`` is called when it need not any more."""
        if self._host.must_wait(backend, then):
            return True
        key = self._key(backend)
        if not backend.secrets or key in self._found:
            return False
        if key not in self._waiting:
            self._waiting[key] = set()
            tasks.spawn(self._find(key, backend.secrets), name="secrets.find")
        self._waiting[key].add(then)
        return True

    def start(
        self, slot: Slot, backend: Backend, generation: int, reports: Reports
    ) -> Run | NotStarted:
        """Start a server; without a secret of its it is not started, and tried at its next use."""
        if backend.secrets:
            usable = self._secrets.fill(backend, self._found[self._key(backend)])
            if isinstance(usable, Failure):
                return NotStarted(usable, is_outside=True)
            backend = usable
        return self._host.start(slot, backend, generation, reports)

    def _key(self, backend: Backend) -> _Key:
        return self._secrets.changes, backend.secrets

    async def _find(self, key: _Key, names: tuple[str, ...]) -> None:
        self._found[key] = await self._secrets.find(names)
        for then in self._waiting.pop(key):
            then()
        del self._found[key]


def filled(backend: _Backend, secrets: Mapping[str, str]) -> _Backend | Failure:
    """Return how to reach a server with its secrets, or why one of them cannot be used."""
    try:
        return backend.with_secrets(secrets)
    except UnusableSecret as wrong:
        why = f"{backend.server} cannot use a secret: {wrong}"
        names = backend.secrets
        hint = f"mcpctl secret set {names[0]}" if len(names) == 1 else "mcpctl secret list"
        return Failure("config_invalid", why, backend.server, hint=hint)


def _failure(server: str, wrong: NotFound) -> Failure:
    details: dict[str, object] = {"secret": wrong.name}
    kind = _KIND.get(wrong.reason, "config_invalid")
    if kind == "spawn_failed":
        details["reason"] = wrong.reason
    return Failure(
        kind=kind,
        message=f"{server} is not started: {wrong.message}",
        server=server,
        is_retryable=kind == "spawn_failed",
        hint=wrong.hint,
        details=details,
    )
