"""What a daemon is made of: its two sides, and what goes between them. Nothing runs yet."""

from __future__ import annotations

import asyncio
import socket

from mcpd.config.schema import DaemonConfig
from mcpd.core.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalOver,
    ClientDeclines,
    QuestionAnswered,
    QuestionAsked,
    RuleForgotten,
    RuleRemembered,
    RuleUsed,
    ServerReady,
    ServerStopped,
    SessionClosed,
)
from mcpd.core.interface import commands as cmd
from mcpd.daemon.client_side import ClientSide
from mcpd.daemon.server_side import ServerSide, Start
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.observe.observer import Observer
from mcpd.observe.pipeline import Pipeline
from mcpd.service import bind
from mcpd.service.lock import DaemonLock


class Daemon:
    """The side of servers, the side of clients, and the commands and facts for both."""

    def __init__(
        self,
        start: Start,
        pipeline: Pipeline,
        lines: DaemonLog,
        *,
        state_dir: str,
        path: str,
        lock: DaemonLock,
        listening: socket.socket,
        identity: bind.Identity | None,
    ) -> None:
        """Build both sides.

        ``path`` is that of the socket, ``identity`` its file, ``None`` for one that was lent.
        """
        self.servers = ServerSide(
            start, pipeline, lines, state_dir=state_dir, apply_listeners=self._apply_listeners
        )
        self.clients = ClientSide(
            self.servers, path=path, lock=lock, listening=listening, identity=identity
        )
        self.servers.reloader.settle = self.clients.http.apply
        self._route()
        self._subscribe()

    def _route(self) -> None:
        """Route the remaining commands of the mux."""
        servers, clients = self.servers, self.clients
        servers.dispatcher.route(
            {
                cmd.Tell: lambda c: servers.facts.publish(c.fact),
                cmd.Control: clients.serve,
                cmd.ControlCancelled: lambda c: clients.control_server.cancel(c.session, c.key),
                cmd.KeepSession: clients.http.keep,
                cmd.Validate: servers.checks.check,
                cmd.KeepCatalog: servers.registry.keep_catalog,
                cmd.KeepBudget: servers.budgets.keep,
                cmd.Examine: servers.examinations.examine,
                cmd.CleanResult: servers.examinations.clean,
                cmd.KeepPins: servers.registry.keep_pins,
                cmd.KeepRules: clients.approvals.keep,
            }
        )

    def _subscribe(self) -> None:
        """Deliver facts."""
        servers, clients = self.servers, self.clients
        registry = servers.registry
        observer = Observer(servers.log, servers.journal, registry.note, registry.mask)
        facts, loop = servers.facts, asyncio.get_running_loop()
        facts.subscribe(observer.report)
        for kind in (
            ApprovalAsked,
            ApprovalAnswered,
            ApprovalOver,
            ClientDeclines,
            RuleForgotten,
            RuleRemembered,
            RuleUsed,
        ):
            facts.subscribe_to(kind, clients.approvals.heard)
        facts.subscribe(lambda _: clients.manager_status.changed())
        facts.subscribe_to(SessionClosed, lambda fact: servers.ad_hoc.session_closed(fact.server))
        facts.subscribe_to(QuestionAsked, servers.audit.asked)
        facts.subscribe_to(QuestionAnswered, servers.audit.asked)
        facts.subscribe_to(ServerReady, lambda _: servers.memory_watch.wake())
        facts.subscribe_to(ServerStopped, lambda _: loop.call_soon(servers.applier.forget_logs))

    def _apply_listeners(self, config: DaemonConfig) -> None:
        self.clients.listeners.apply(config)
