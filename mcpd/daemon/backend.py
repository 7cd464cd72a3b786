"""Answers for control requests, from everybody who knows a part of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from mcpd import __version__, paths
from mcpd.api.version import API
from mcpd.config.entry import masked
from mcpd.core.facts import Failure
from mcpd.core.mcp import codes
from mcpd.core.mux.failures import with_details
from mcpd.core.mux.mux import Mux
from mcpd.daemon import status as snapshots
from mcpd.daemon.adhoc import AdHoc
from mcpd.daemon.assemble import Server
from mcpd.daemon.operate import Operator, Reached
from mcpd.daemon.registry import Registry
from mcpd.daemon.reload import Reloader
from mcpd.listeners.control import AttachParams, Send, Unsubscribe
from mcpd.observe.journal import Journal
from mcpd.observe.pipeline import Pipeline
from mcpd.redact import MASK
from mcpd.supervise.supervisor import Supervisor

Json = dict[str, Any]

WORKSPACE_MARKS = (".git", ".hg", ".mcp.json")

MOST_PARENTS = 100
"""So many directories are looked at for a mark, from the one a client is in upwards."""

ROOT_CHARACTERS = 8192
"""A longer URI names no directory: each character of a path may be three of a URI."""


class Answers:
    """The daemon's side of the control methods."""

    def __init__(
        self,
        *,
        socket: str,
        config: str | None,
        registry: Registry,
        mux: Mux,
        supervisor: Supervisor,
        operator: Operator,
        reloader: Reloader,
        ad_hoc: AdHoc,
        log: Pipeline,
        journal: Journal,
        shutdown: Callable[[float | None], None],
        problems: Callable[[], list[str]],
    ) -> None:
        self._socket = socket
        self._config = config
        self._registry = registry
        self._mux = mux
        self._supervisor = supervisor
        self._operator = operator
        self._reloader = reloader
        self._ad_hoc = ad_hoc
        self._log = log
        self._journal = journal
        self._shutdown = shutdown
        self._problems = problems
        self._started_at = asyncio.get_running_loop().time()

    def uptime_s(self) -> float:
        """Return for how long the daemon has been there."""
        return asyncio.get_running_loop().time() - self._started_at

    def hello(self) -> Json:
        """Say who is there."""
        return {
            "version": __version__,
            "pid": os.getpid(),
            "api": API,
            "uptime_s": round(self.uptime_s(), 3),
            "config": self._config,
        }

    def workspace(self, cwd: str) -> str | None:
        """Return the workspace that a directory belongs to."""
        return workspace_of((), cwd)

    def attach(self, params: AttachParams) -> tuple[str | None, str | None] | Failure:
        """Find the server and the workspace of a new session."""
        if params.server is not None and params.command is not None:
            return Failure("invalid_params", "mcpd/attach: params: `server` or `command`, not both")
        if params.cwd is not None and not params.cwd.startswith("/"):
            return Failure("invalid_params", "mcpd/attach: params.cwd: expected an absolute path")
        server = params.server
        if params.command is not None:
            brought = self._ad_hoc.bring(params.command, params.cwd)
            if isinstance(brought, Failure):
                return brought
            server = brought
        return server, workspace_of(params.roots, params.cwd)

    async def status(self, servers: tuple[str, ...] | None) -> Json | Failure:
        """Say how everything is."""
        found = list(self._registry) if servers is None else self._operator.find(servers)
        if isinstance(found, Failure):
            return found
        seen = await snapshots.snapshot(self._mux, self._supervisor)
        return dict(
            snapshots.whole(
                seen.daemon(self._socket, self.uptime_s(), self._problems()),
                [
                    seen.server(
                        server,
                        is_held=self._operator.is_held(server.name),
                        reason=self._ad_hoc.differs_in(server),
                    )
                    for server in found
                    if self._registry.get(server.name) is not None
                ],
            )
        )

    def entries(self) -> Json:
        """List the entries with their effective values, secrets masked."""
        loaded = self._registry.loaded
        login = self._supervisor.login
        return {
            "files": list(loaded.files),
            "path": {} if login is None else login.report(),
            "servers": [_entry(server) for server in self._registry],
            "errors": [str(problem) for problem in loaded.errors],
        }

    async def start(self, servers: tuple[str, ...]) -> Json | Failure:
        """Start servers; done when they are ready."""
        return self._reached(await self._operator.start(servers))

    async def stop(self, servers: tuple[str, ...]) -> Json | Failure:
        """Stop servers; done when their trees are gone."""
        return self._reached(await self._operator.stop(servers))

    async def restart(self, servers: tuple[str, ...]) -> Json | Failure:
        """Restart servers; done when they are ready again."""
        return self._reached(await self._operator.restart(servers))

    async def reload(self) -> Json | Failure:
        """Read the configuration again."""
        return await self._reloader.reload("asked")

    def logs(self, server: str | None, lines: int) -> Iterator[list[Any]] | Failure:
        """Give the newest lines of a server's log, or of the daemon's, piece by piece."""
        if lines < 0:
            return Failure("invalid_params", "mcpd/logs: params.lines: expected 0 or more")
        if server is None:
            return self._log.pieces(lines)
        found = self._operator.find((server,))
        if isinstance(found, Failure):
            return found
        return self._registry.log(self._log_name(found[0])).pieces(lines)

    def follow_log(self, server: str | None, send: Send) -> Unsubscribe:
        """Send each line that comes from now on."""

        def take(line: Any) -> None:
            send(msgspec.to_builtins(line))

        if server is None:
            return self._log.follow(take)
        found = self._registry.get(server)
        return self._registry.log(server if found is None else self._log_name(found)).follow(take)

    def events(self, servers: tuple[str, ...] | None) -> Json | Failure:
        """Say where the stream of events begins."""
        found = None if servers is None else self._operator.find(servers)
        return found if isinstance(found, Failure) else {"seq": self._journal.last}

    def follow_events(
        self, servers: tuple[str, ...] | None, since: int | None, send: Send
    ) -> Unsubscribe:
        """Send what happened since, as far as it is known, and then what happens."""

        def tell(event: Json) -> None:
            if servers is None or self._concerns(event, servers):
                send(event)

        if since is not None:
            for event in self._journal.since(since):
                tell(event)
        return self._journal.listen(tell)

    def shutdown(self, drain: float | None) -> None:
        """End the daemon, after this has been answered."""
        self._shutdown(drain)

    # -- inside ------------------------------------------------------------------------------------

    def _reached(self, outcome: Reached | Failure) -> Json | Failure:
        """Say how each server is; where some have failed, as part of the first one's error."""
        if isinstance(outcome, Failure):
            return outcome
        seen = snapshots.Snapshot(self._mux, self._supervisor, {}, {})
        reached = []
        for server, failure in outcome:
            is_held = self._operator.is_held(server.name)
            found = seen.server(server, is_held=is_held, reason=None)
            told: Json = {key: found[key] for key in ("name", "state", "pid")}
            if found["state"] == "stopped" and found["pid"] is not None:
                told |= {"pid": None, "goes_on_for": self._operator.others_of(server)}
            elif is_held and (step := seen.step(server)) is not None:
                told["step"] = step
            if failure is not None:
                told["error"] = msgspec.Raw(codes.error_object(failure))
            reached.append(told)
        first = next((failure for _, failure in outcome if failure is not None), None)
        if first is None:
            return {"servers": reached}
        return with_details(first, servers=reached) if len(outcome) > 1 else first

    def _concerns(self, event: Json, servers: tuple[str, ...]) -> bool:
        """Tell whether an event is of one of ``servers``, of its process, or of none at all.

        What a process does is told under one name, also where several entries share it.
        """
        told = event.get("server")
        if told is None or told in servers:
            return True
        found = filter(None, map(self._registry.get, servers))
        is_of_process = event["event"].startswith("server.")
        return is_of_process and any(self._log_name(server) == told for server in found)

    def _log_name(self, server: Server) -> str:
        """Return whose log it is: of servers that share a process, the first one's."""
        first = self._registry.by_launch(server.entry.launch) if server.spec is not None else None
        return server.name if first is None else first.name


def workspace_of(roots: tuple[str, ...], cwd: str | None) -> str | None:
    """Return the directory that a session works in: its first root, else its project.

    A project is the nearest directory with ``.git``, ``.hg`` or ``.mcp.json``, below the home
    directory; where there is none, ``cwd`` itself. ``/`` is no project: it is where clients are
    that were started from nowhere.
    """
    named = next(filter(None, map(_directory_of, roots)), None)
    if named is not None:
        return named
    here = _plain(cwd or "/")
    if here == "/":
        return None
    home = _plain(paths.home())
    place = here
    for _ in range(MOST_PARENTS):
        if place in ("/", home):
            break
        if any(os.path.lexists(os.path.join(place, mark)) for mark in WORKSPACE_MARKS):
            return place
        place = os.path.dirname(place)
    return here


def _directory_of(root: str) -> str | None:
    """Return the directory that a root's URI names, ``None`` for any other URI."""
    if len(root) > ROOT_CHARACTERS:
        return None
    try:
        parts = urlsplit(root)
    except ValueError:  # half of an IPv6 address
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or not path.startswith("/") or "\0" in path:
        return None
    return _plain(path)


def _plain(path: str) -> str:
    """Return an absolute path as the kernel takes it; two slashes at its head are one."""
    return os.path.normpath("/" + path.lstrip("/"))


def _entry(server: Server) -> Json:
    configured = server.configured
    values = masked(configured)
    if values and server.is_ad_hoc:  # it may be all that its client has: no name tells what it is
        values["env"] = dict.fromkeys(values["env"], MASK)
    return {
        "name": server.name,
        "file": configured.file,
        "line": configured.line,
        "enabled": configured.enabled,
        "config": values or None,
        "error": configured.error,
    }
