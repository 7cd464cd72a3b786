"""Handles the control methods of servers: their state, their entries, start, stop and reload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Raw

from mcpd import tasks
from mcpd.api import requests as api
from mcpd.api import results
from mcpd.api.status import Status
from mcpd.config.entry import masked
from mcpd.core.facts import Failure
from mcpd.core.interface.failures import with_details
from mcpd.core.mcp import codes
from mcpd.core.mux.mux import Mux
from mcpd.daemon.control import status as snapshots
from mcpd.daemon.reload import Reloader
from mcpd.daemon.servers.adhoc import AdHoc
from mcpd.daemon.servers.control import Reached, ServerControl
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.server import Server
from mcpd.daemon_start.place import Place
from mcpd.listeners.requests import Request
from mcpd.redact import MASK
from mcpd.supervise.loginenv.loginshell import LoginShell
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.supervisor import Supervisor

SHELL_S: Final = 2.0
"""How long a reload waits for the variables of the login shell, to tell which are not set."""


class ServerHandlers:
    """Answers what is asked about servers, and starts and stops them on request."""

    def __init__(
        self,
        *,
        socket: str,
        registry: Registry,
        mux: Mux,
        supervisor: Supervisor,
        reaper: Reaper,
        login: LoginShell,
        operator: ServerControl,
        reloader: Reloader,
        ad_hoc: AdHoc,
        auth: Callable[[str], str | None],
        problems: Callable[[], list[str]],
        others: Callable[[], Awaitable[list[Place]]],
        http: Callable[[], list[str]],
        declining: Callable[[], list[str]],
    ) -> None:
        """Take what the handlers ask.

        ``socket`` is the path of the socket. ``auth`` returns how a sign-in authorises requests to
        a server, ``problems`` what the daemon cannot write or use, a sentence each, ``others``
        other daemons of this home directory, ``http`` the addresses on which it listens for HTTP,
        and ``declining`` the clients that were seen to refuse questions by themselves.
        """
        self._socket = socket
        self._registry = registry
        self._mux = mux
        self._supervisor = supervisor
        self._reaper = reaper
        self._login = login
        self._operator = operator
        self._reloader = reloader
        self._ad_hoc = ad_hoc
        self._auth = auth
        self._problems = problems
        self._others = others
        self._http = http
        self._declining = declining
        self._started_at = asyncio.get_running_loop().time()
        self._looked = tasks.Shared(self._look, name="status")
        self._turnstile = tasks.Turnstile()

    def uptime_s(self) -> float:
        """Return how long the daemon has run, in seconds."""
        return asyncio.get_running_loop().time() - self._started_at

    async def status(self, request: Request, params: api.StatusParams) -> Status | Failure:
        """Return the state of the daemon, and of all servers or of some."""
        if params.servers is None:
            found: list[Server] | Failure = list(self._registry)
        else:
            found = self._operator.find(self._meant(request, params.servers))
        if isinstance(found, Failure):
            return found
        seen, others = await self._looked.result()
        await self._turnstile.passed()
        return {
            "daemon": seen.daemon(
                self._socket,
                self.uptime_s(),
                problems=self._problems(),
                others=others,
                http=self._http(),
                declining=self._declining(),
            ),
            "servers": [
                seen.server(
                    server,
                    is_held=self._operator.is_held(server.name),
                    reason=self._ad_hoc.differs_in(server),
                )
                for server in found
                if self._registry.get(server.name) is not None
            ],
        }

    async def _look(self) -> tuple[snapshots.Snapshot, list[Place]]:
        """Read the processes of all servers, and who else is here: in threads, so once for many."""
        seen = await snapshots.snapshot(self._mux, self._supervisor, self._reaper, self._auth)
        return seen, await self._others()

    def entries(self, _request: Request, _params: api.Params) -> results.Entries:
        """List the entries of the configuration with their effective values, secrets masked."""
        loaded = self._registry.loaded
        return {
            "files": list(loaded.files),
            "path": self._login.report(),
            "servers": [_entry(server) for server in self._registry],
            "errors": [str(problem) for problem in loaded.errors],
        }

    async def start(
        self, request: Request, params: api.ServersParams
    ) -> results.AllReached | Failure:
        """Start servers and wait until they are ready."""
        names = self._meant(request, params.servers)
        return self._reached(await self._operator.start(names))

    async def stop(
        self, request: Request, params: api.ServersParams
    ) -> results.AllReached | Failure:
        """Stop servers and wait until their process trees have ended."""
        return self._reached(await self._operator.stop(self._meant(request, params.servers)))

    async def restart(
        self, request: Request, params: api.ServersParams
    ) -> results.AllReached | Failure:
        """Restart servers and wait until they are ready again."""
        names = self._meant(request, params.servers)
        return self._reached(await self._operator.restart(names))

    async def reload(self, _request: Request, _params: api.Params) -> results.Reloaded:
        """Read the configuration again and apply what has changed.

        Variables that only the login shell has may be known later: the log then says what is wrong.
        """
        done = await self._reloader.reload("asked")
        await self._operator.resolved(SHELL_S)
        known = [str(problem) for problem in self._registry.loaded.errors]
        done["errors"] += [each for each in known if each not in done["errors"]]
        return done

    def _meant(self, request: Request, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the servers that names mean where the request comes from."""
        return tuple(self._mux.named(name, request.session) for name in names)

    def _reached(self, outcome: Reached | Failure) -> results.AllReached | Failure:
        """Return the state of each server; where some have failed, in the first one's error."""
        if isinstance(outcome, Failure):
            return outcome
        seen = snapshots.Snapshot(self._mux, self._supervisor, {}, {})
        reached: list[results.Reached] = []
        for server, failure in outcome:
            is_held = self._operator.is_held(server.name)
            found = seen.server(server, is_held=is_held, reason=None)
            one: results.Reached = {
                "name": found["name"],
                "state": found["state"],
                "pid": found["pid"],
            }
            if found["state"] == "stopped" and found["pid"] is not None:
                one["pid"] = None
                one["goes_on_for"] = self._operator.others_of(server)
            elif is_held and (step := seen.step(server)) is not None:
                one["step"] = step
            steps = self._operator.steps(server)
            if found["state"] == "ready" and steps is not None:
                one["steps"] = steps.report()
            if failure is not None:
                one["error"] = Raw(codes.error_object(failure))
            reached.append(one)
        first = next((failure for _, failure in outcome if failure is not None), None)
        if first is None:
            return {"servers": reached}
        return with_details(first, servers=reached) if len(outcome) > 1 else first


def _entry(server: Server) -> results.Entry:
    configured = server.configured
    values = masked(configured)
    if values and server.is_ad_hoc:  # it may have the client's whole environment, with any secret
        values["env"] = dict.fromkeys(values["env"], MASK)
    found: results.Entry = {
        "name": server.name,
        "file": configured.file,
        "line": configured.line,
        "enabled": configured.enabled,
        "config": values or None,
        "error": configured.error,
    }
    if server.entry.workspace is not None:
        found["project"] = server.entry.workspace
    return found
