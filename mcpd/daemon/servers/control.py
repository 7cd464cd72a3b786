"""Starting, stopping and restarting servers on request of people."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence

from mcpd.core.facts import Failure
from mcpd.core.interface.events import StartUnasked, UserStop
from mcpd.core.mux.mux import Mux
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.server import Server
from mcpd.ids import SlotId
from mcpd.schemas.suggest import nearest
from mcpd.upstreams.steps import Steps
from mcpd.upstreams.supervisor import Supervisor

CONTROL_KEYS = (None, "control")
"""Keys of the slots that a server has for itself, and not for a session or a workspace."""

Reached = list[tuple[Server, Failure | None]]
"""Each server with the failure of its start or stop, ``None`` for success."""


class ServerControl:
    """Starts and stops servers on request. A server that was stopped is held until it is started.

    Invariant: a stop holds one name. Entries that share a process keep it until all of them are
    held.
    """

    def __init__(
        self,
        registry: Registry,
        mux: Mux,
        supervisor: Supervisor,
        dispatch: Callable[[UserStop | StartUnasked], None],
        resolved: Callable[[], Awaitable[None]],
    ) -> None:
        """``resolved`` waits until the variables are known that entries name."""
        self._registry = registry
        self._mux = mux
        self._supervisor = supervisor
        self._dispatch = dispatch
        self._resolved = resolved
        self._held: set[str] = set()

    async def resolved(self, within_s: float) -> None:
        """Wait until the variables are known that entries name, ``within_s`` seconds at most."""
        if any(server.configured.awaits for server in self._registry):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._resolved(), within_s)

    def is_held(self, name: str) -> bool:
        """Return whether this server was stopped on request."""
        return name in self._held

    def others_of(self, server: Server) -> list[str]:
        """Return the other names that share the processes of a server and are not held."""
        return [
            other.name
            for other in self._registry
            if other.name != server.name
            and other.name not in self._held
            and other.backend is not None
            and other.entry.launch == server.entry.launch
        ]

    def steps(self, server: Server) -> Steps | None:
        """Return the steps of the last start of a server's own process or connection."""
        slots = map(self._supervisor.get, self._own_slots(server))
        return next((slot.steps for slot in slots if slot is not None), None)

    def find(self, names: Iterable[str]) -> list[Server] | Failure:
        """Return servers by their names, or the failure for one that does not exist."""
        found = []
        for name in dict.fromkeys(names):
            server = self._registry.get(name)
            if server is None:
                near = nearest(name, [each.name for each in self._registry])
                hint = f"did you mean {' or '.join(near)}?" if near else "mcpctl list shows them"
                return Failure(
                    "server_not_found",
                    f"there is no server {name!r}",
                    name,
                    hint=hint,
                    details={"near": near},
                )
            found.append(server)
        return found

    async def usable(self, names: Sequence[str]) -> list[Server] | Failure:
        """Return servers by their names, once their variables are known, or why one is not usable.

        A name that does not exist fails as in ``find``.
        """
        found = self.find(names)
        if not isinstance(found, Failure) and any(each.configured.awaits for each in found):
            await self._resolved()
            found = self.find(names)
        if isinstance(found, Failure):
            return found
        unusable = (server.entry.unavailable for server in found)
        return next((failure for failure in unusable if failure is not None), found)

    async def start(self, names: Sequence[str]) -> Reached | Failure:
        """Start servers and wait until each is ready or has failed.

        A name that does not exist or cannot be used fails the whole request: nothing is started.
        """
        servers = await self.usable(names)
        if isinstance(servers, Failure):
            return servers
        return await _reached([(server, [self._start(server)]) for server in servers])

    async def restart(self, names: Sequence[str]) -> Reached | Failure:
        """Restart servers, or start those that do not run. Waits and fails as ``start`` does."""
        servers = await self.usable(names)
        if isinstance(servers, Failure):
            return servers
        attempts = []
        for server in servers:
            running = [slot for slot in self._slots(server) if self._is_running(slot)]
            if not running:
                attempts.append((server, [self._start(server)]))
                continue
            self.release(server.name)
            failure = Failure(
                "server_stopped", f"{server.name} is being restarted", server.name, True
            )
            attempts.append((server, [self._supervisor.restart(slot, failure) for slot in running]))
        return await _reached(attempts)

    async def restart_running(self, name: str) -> None:
        """Restart a server that runs, and do nothing for one that does not."""
        server = self._registry.get(name)
        if server is not None and any(map(self._is_running, self._slots(server))):
            await self.restart((name,))

    async def stop(self, names: Sequence[str]) -> Reached | Failure:
        """Stop and hold servers, and wait until nothing of their processes is left."""
        servers = self.find(names)
        if isinstance(servers, Failure):
            return servers
        stopping: list[SlotId] = []
        for server in servers:
            failure = _stopped(server.name)
            self._held.add(server.name)
            self._dispatch(UserStop(server.name, failure))
            if not self.others_of(server):
                for slot in self._slots(server):
                    self._supervisor.stop(slot, failure)
                    stopping.append(slot)
        for slot in stopping:
            await self._supervisor.wait_empty(slot)
        return [(server, None) for server in servers]

    def release(self, name: str) -> None:
        """Hold a server no longer."""
        if name in self._held:
            self._held.discard(name)
            self._dispatch(UserStop(name, None))

    def renewed(self, names: Iterable[str]) -> None:
        """Keep holding those servers whose processes are replaced, and start the eager ones."""
        for server in filter(None, map(self._registry.get, names)):
            if server.name in self._held:
                self._dispatch(UserStop(server.name, _stopped(server.name)))
                continue
            config = server.configured.config
            if config is not None and config.start == "eager":
                self.start_eager(server.name)

    def start_eager(self, name: str) -> None:
        """Start a server whose entry says ``start = "eager"``, unless it is held."""
        server = self._registry.get(name)
        if server is None or server.backend is None or server.backend.of_workspace:
            return  # there is no workspace before a session
        if name not in self._held:
            self._dispatch(StartUnasked(name))
            for slot in self._own_slots(server):
                self._supervisor.want(slot)

    def clear_failed(self, names: Iterable[str]) -> None:
        """Let servers start again that failed too often before their entries were changed."""
        for server in filter(None, map(self._registry.get, names)):
            self._supervisor.reset_start_timeout(server.entry.launch)
            for slot in self._slots(server):
                self._supervisor.clear_failed(slot, f"the entry of {server.name} was changed")

    # -- inside ------------------------------------------------------------------------------------

    def _start(self, server: Server) -> asyncio.Future[Failure | None]:
        self.release(server.name)
        self._dispatch(StartUnasked(server.name))
        return self._supervisor.start(self._own_slots(server)[0])

    def _slots(self, server: Server) -> list[SlotId]:
        slots = (each.slot for each in self._mux.report(server.name).slots)
        return [slot for slot in slots if self._supervisor.get(slot) is not None]

    def _own_slots(self, server: Server) -> list[SlotId]:
        report = self._mux.report(server.name)
        return [each.slot for each in report.slots if each.key in CONTROL_KEYS]

    def _is_running(self, ident: SlotId) -> bool:
        slot = self._supervisor.get(ident)
        return slot is not None and slot.run is not None


def _stopped(server: str) -> Failure:
    return Failure(
        kind="server_stopped",
        message=f"{server} was stopped with `mcpctl stop`",
        server=server,
        hint=f"mcpctl start {server}",
    )


async def _reached(
    attempts: Sequence[tuple[Server, Sequence[asyncio.Future[Failure | None]]]],
) -> Reached:
    """Wait for all starts of all servers, also after one has failed."""
    found = await asyncio.gather(*(asyncio.gather(*outcomes) for _, outcomes in attempts))
    return [
        (server, next((each for each in failures if each is not None), None))
        for (server, _), failures in zip(attempts, found, strict=True)
    ]
