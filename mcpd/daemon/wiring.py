"""What a daemon is made of: the side of servers, and here that of clients. Nothing runs yet."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from mcpd import daemon_process, paths
from mcpd.api.requests import AttachParams
from mcpd.config.diff import Change
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
from mcpd.daemon.approvals.desktop import Desktop
from mcpd.daemon.approvals.keeper import ApprovalKeeper
from mcpd.daemon.control.handlers import METHODS, ControlHandlers
from mcpd.daemon.control.pin_handlers import PinHandlers
from mcpd.daemon.control.project_handlers import ProjectHandlers
from mcpd.daemon.control.server_handlers import ServerHandlers
from mcpd.daemon.control.stream_handlers import StreamHandlers
from mcpd.daemon.downstream import Listeners, Sessions, UnixSessions
from mcpd.daemon.drain import Drain, Ending
from mcpd.daemon.http.switch import HttpSwitch
from mcpd.daemon.reload import ConfigApplier
from mcpd.daemon.server_side import ServerSide, Start
from mcpd.daemon.upkeep.manager_status import ManagerStatus
from mcpd.daemon.upkeep.place_keeper import PlaceKeeper
from mcpd.daemon.upkeep.problems import problems
from mcpd.daemon.upkeep.socket_keeper import SocketKeeper
from mcpd.daemon_start.place import Place
from mcpd.ids import SessionId
from mcpd.listeners.control import ControlServer
from mcpd.listeners.requests import ControlRequests
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.observe.observer import Observer
from mcpd.observe.pipeline import Pipeline
from mcpd.service import bind
from mcpd.service.lock import DaemonLock

if TYPE_CHECKING:
    from mcpd.daemon.control.login_handlers import LoginHandlers


class Daemon(ServerSide):
    """The parts of a daemon: those that deal with servers, then those that deal with clients."""

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
        super().__init__(start, pipeline, lines, state_dir=state_dir)
        self.path = path
        self._build_downstreams(lock, listening, identity)
        self._build_control()
        self._subscribe()

    def _build_downstreams(
        self, lock: DaemonLock, listening: socket.socket, identity: bind.Identity | None
    ) -> None:
        """Build what accepts clients, and what ends their sessions with the daemon."""
        self.sessions = Sessions(self.dispatcher)
        self.unix = UnixSessions(
            listening,
            mux=self.mux,
            sessions=self.sessions,
            dispatch=self.dispatcher.dispatch,
            settings=self._settings,
            connected=self.clients.connected,
            closed=self._closed,
            refused=self.notices.connection_refused,
            broken=self.notices.connection_broken,
        )
        self.listeners = Listeners(lambda config: {self.path: lambda: self.unix.listener})
        self.http = HttpSwitch(
            lambda: self.registry.http,
            self.notices.http_trouble,
            state_dir=self.state_dir,
            mux=self.mux,
            sessions=self.sessions,
            registry=self.registry,
            notices=self.notices,
            record=self.audit.event,
        )
        self.drain = Drain(self.dispatcher, self.supervisor, self.listeners, self.http)
        self.ending = Ending(self.drain)
        self.socket_keeper = SocketKeeper(
            self.path,
            lock,
            identity,
            is_lent=identity is None,
            replace=self.unix.listener.replace,
            lost=self.ending.request,
            refused=lambda refusal: self.notices.socket_refused(self.path, refusal),
        )
        self.place_keeper = PlaceKeeper(
            Place(
                socket=self.path,
                state_dir=self.state_dir,
                config=self._config_file,
                config_home=paths.config_home(),
                pid=os.getpid(),
                start_time=daemon_process.start_time(os.getpid()) or "",
            ),
            self.notices.place_trouble,
        )

    def _build_control(self) -> None:
        """Build what answers control requests and tells the service manager."""
        options = self.start.options
        self.applier = ConfigApplier(
            log_level=options.log_level,
            registry=self.registry,
            pipeline=self.pipeline,
            lines=self.lines,
            log_quota=self.log_quota,
            dispatcher=self.dispatcher,
            supervisor=self.supervisor,
            control=self.control,
            memory_watch=self.memory_watch,
            listeners=self.listeners,
            projects=self.projects,
        )
        self.reloader.settle = self.http.apply
        self.reloader.look_at_projects = self.projects.look
        self.approvals = ApprovalKeeper(
            self.state_dir,
            mux=self.mux,
            desktop=Desktop(self.reaper, is_on=lambda: self.registry.loaded.trust.notify == "auto"),
            now=self.clock.now,
            dispatch=self.dispatcher.dispatch,
            peer_of=self.unix.peer_of,
            notify=self.sessions.notify,
        )
        self.handlers = self._build_handlers()
        self.control_server = ControlServer(
            ControlRequests(METHODS, self.handlers),
            server_of_command=self.ad_hoc.bring,
            attaching=self._attaching,
            dispatch=self.dispatcher.dispatch,
            notify=self.sessions.notify,
        )
        self.manager_status = ManagerStatus(
            self.start.notifier, self.registry, self.mux, self.supervisor
        )
        self.applier.apply_log_limits()

    def _build_handlers(self) -> ControlHandlers:
        """Build what answers each group of control methods."""
        return ControlHandlers(
            config=self._config_file,
            mux=self.mux,
            servers=ServerHandlers(
                socket=self.path,
                registry=self.registry,
                mux=self.mux,
                supervisor=self.supervisor,
                reaper=self.reaper,
                login=self.login,
                operator=self.control,
                reloader=self.reloader,
                ad_hoc=self.ad_hoc,
                auth=self.credentials.auth,
                problems=lambda: problems(
                    self.socket_keeper,
                    self.place_keeper,
                    self.ledger,
                    self.cache,
                    self.pins,
                    self.registry,
                    self.http,
                    self.audit,
                    self.approvals,
                ),
                others=self.place_keeper.others,
                http=lambda: self.http.addresses,
                declining=lambda: self.approvals.declining,
            ),
            streams=StreamHandlers(
                self.mux, self.registry, self.control, self.pipeline, self.journal
            ),
            projects=ProjectHandlers(self.projects, self.clients, self.dispatcher.dispatch),
            pins=PinHandlers(self.mux, self.registry, self.control, self.pins),
            logins=self._logins,
            clients=self.clients,
            approvals=self.approvals,
            audit=self.audit,
            journal=self.journal,
            renewed=self._renewed,
            shutdown=lambda drain: self.ending.request("asked by mcpd/shutdown", drain),
        )

    def _subscribe(self) -> None:
        """Route the remaining commands of the mux, and deliver facts."""
        self.dispatcher.route(
            {
                cmd.Tell: lambda c: self.facts.publish(c.fact),
                cmd.Control: self._serve,
                cmd.ControlCancelled: lambda c: self.control_server.cancel(c.session, c.key),
                cmd.KeepSession: self.http.keep,
                cmd.Validate: self.checks.check,
                cmd.KeepCatalog: self.registry.keep_catalog,
                cmd.KeepBudget: self.budgets.keep,
                cmd.Examine: self.examinations.examine,
                cmd.CleanResult: self.examinations.clean,
                cmd.KeepPins: self.registry.keep_pins,
                cmd.KeepRules: self.approvals.keep,
            }
        )
        observer = Observer(self.log, self.journal, self.registry.note, self.registry.mask)
        facts, loop = self.facts, asyncio.get_running_loop()
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
            facts.subscribe_to(kind, self.approvals.heard)
        facts.subscribe(lambda _: self.manager_status.changed())
        facts.subscribe_to(SessionClosed, lambda fact: self.ad_hoc.session_closed(fact.server))
        facts.subscribe_to(QuestionAsked, self.audit.asked)
        facts.subscribe_to(QuestionAnswered, self.audit.asked)
        facts.subscribe_to(ServerReady, lambda _: self.memory_watch.wake())
        facts.subscribe_to(ServerStopped, lambda _: loop.call_soon(self.applier.forget_logs))

    @property
    def _config_file(self) -> str | None:
        """The only file that is read, where one was named."""
        return self.start.options.config or os.environ.get("MCPD_CONFIG") or None

    # -- called back by parts that are built before what they need ---------------------------------

    def _apply(self, change: Change) -> None:
        self.audit.apply()
        self.applier.apply(change)

    def _apply_entries(self) -> None:
        self.applier.apply_entries()

    def _attaching(self, session: SessionId, params: AttachParams, workspace: str | None) -> None:
        self.clients.attached(session, params)
        self.projects.enter(session, workspace, is_session=True)

    def _closed(self, session: SessionId) -> None:
        self.clients.closed(session)
        self.projects.leave(session)

    def _logins(self) -> LoginHandlers:
        from mcpd.daemon.control.login_handlers import LoginHandlers

        return LoginHandlers(self.control, self.credentials.signins, self.secrets)

    def _serve(self, command: cmd.Control) -> None:
        if command.method == "mcpd/call":
            self.checks.prewarm()
        self.control_server.serve(command)
