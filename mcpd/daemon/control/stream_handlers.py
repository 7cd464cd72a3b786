"""Handles the control methods of what goes on: lines of logs, and events, as streams."""

from __future__ import annotations

import asyncio

import msgspec

from mcpd.api import requests as api
from mcpd.api import results
from mcpd.core.facts import Failure
from mcpd.core.mux.mux import Mux
from mcpd.daemon.servers.control import ServerControl
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.server import Server
from mcpd.listeners.requests import Encoded, Request, Send, Unsubscribe
from mcpd.logfiles.serverlog import ServerLog
from mcpd.observe.journal import Event, Journal
from mcpd.observe.pipeline import Pipeline


class StreamHandlers:
    """Answers what is asked about logs and events; a stream of what comes may follow."""

    def __init__(
        self,
        mux: Mux,
        registry: Registry,
        operator: ServerControl,
        log: Pipeline,
        journal: Journal,
    ) -> None:
        """``log`` is the daemon's own; those of servers are in the registry."""
        self._mux = mux
        self._registry = registry
        self._operator = operator
        self._log = log
        self._journal = journal

    async def logs(
        self, request: Request, params: api.LogsParams
    ) -> Encoded[results.Logs] | Failure:
        """Return the newest lines of a log; with ``follow``, a stream brings those that come.

        A log can have a million lines: other tasks run after each piece of it.
        """
        if params.lines < 0:
            return Failure("invalid_params", "mcpd/logs: params.lines: expected 0 or more")
        server = None
        if params.server is not None:
            found = self._operator.find(self._meant(request, (params.server,)))
            if isinstance(found, Failure):
                return found
            server = self._log_name(found[0])
        log = self._log if server is None else self._registry.log(server)
        if params.follow:
            refusal = request.follow("mcpd/log", lambda send: _follow(log, send))
            if refusal is not None:
                return refusal
        parts = [b'{"lines":[']
        for piece in log.pieces(params.lines):
            if piece:
                comma = b"," if len(parts) > 1 else b""
                parts.append(comma + msgspec.json.encode(piece)[1:-1])
            await asyncio.sleep(0)
        return Encoded((*parts, b"]}"))

    def events(self, request: Request, params: api.EventsParams) -> results.Events | Failure:
        """Return the number of the newest event; a stream brings those since ``since``."""
        if params.servers is not None:
            params.servers = self._meant(request, params.servers)
        found = None if params.servers is None else self._operator.find(params.servers)
        if isinstance(found, Failure):
            return found
        refusal = request.follow("mcpd/event", lambda send: self._follow_events(params, send))
        return {"seq": self._journal.last} if refusal is None else refusal

    def _follow_events(self, params: api.EventsParams, send: Send) -> Unsubscribe:
        """Send what is kept of the events since ``since``, then each that comes."""
        servers = params.servers

        def filtered(event: Event) -> None:
            if servers is None or self._concerns(event, servers):
                send(event)

        if params.since is not None:
            for event in self._journal.since(params.since):
                filtered(event)
        return self._journal.listen(filtered)

    def _meant(self, request: Request, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the servers that names mean where the request comes from."""
        return tuple(self._mux.named(name, request.session) for name in names)

    def _concerns(self, event: Event, servers: tuple[str, ...]) -> bool:
        """Tell whether an event is about one of ``servers``, about its process, or about none.

        Events of a process that several entries share have the name of one of them.
        """
        name = event.get("server")
        if name is None or name in servers:
            return True
        found = filter(None, map(self._registry.get, servers))
        is_of_process = event["event"].startswith("server.")
        return is_of_process and any(self._log_name(server) == name for server in found)

    def _log_name(self, server: Server) -> str:
        """Return the name of a server's log: servers that share a process have the first one's."""
        has_process = server.backend is not None
        first = self._registry.by_launch(server.entry.launch) if has_process else None
        return server.name if first is None else first.name


def _follow(log: Pipeline | ServerLog, send: Send) -> Unsubscribe:
    return log.follow(lambda line: send(msgspec.to_builtins(line)))
