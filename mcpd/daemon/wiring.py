"""What a daemon is made of: each part is built from the parts above it. Nothing runs yet."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from mcpd import __version__, daemon_process, paths, tasks
from mcpd.api.requests import AttachParams
from mcpd.config.diff import Change
from mcpd.config.load import Loaded
from mcpd.config.resolving import NO_LOGIN, Login
from mcpd.config.schema import DaemonConfig
from mcpd.core.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalOver,
    ClientDeclines,
    Failure,
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
from mcpd.core.interface.entries import Settings
from mcpd.core.interface.events import DayBegan
from mcpd.core.mux.mux import Mux
from mcpd.daemon import rules_file, worker_processes
from mcpd.daemon.approvals import ApprovalKeeper
from mcpd.daemon.argument_checks import ArgumentChecks
from mcpd.daemon.audit import AuditKeeper
from mcpd.daemon.client_processes import ClientProcesses
from mcpd.daemon.clock import Clock
from mcpd.daemon.desktop import Desktop
from mcpd.daemon.dispatcher import Dispatcher
from mcpd.daemon.downstream import Listeners, Sessions, UnixSessions
from mcpd.daemon.drain import Drain, Ending
from mcpd.daemon.examination import Examinations
from mcpd.daemon.facts import Facts
from mcpd.daemon.handlers import METHODS, ControlHandlers
from mcpd.daemon.http.switch import HttpSwitch
from mcpd.daemon.notices import Notices
from mcpd.daemon.pin_handlers import PinHandlers
from mcpd.daemon.reload import ConfigApplier, Reloader, starts_at_once
from mcpd.daemon.servers.adhoc import AdHoc
from mcpd.daemon.servers.cache import CatalogCache
from mcpd.daemon.servers.control import ServerControl
from mcpd.daemon.servers.memory_watch import MemoryWatch
from mcpd.daemon.servers.pinstore import PinStore
from mcpd.daemon.servers.projects import Projects
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.secrets import ServerSecrets, WithSecrets
from mcpd.daemon.servers.unresolved import UnresolvedHost, UnresolvedSpec
from mcpd.daemon.upkeep import budget_keeper
from mcpd.daemon.upkeep.budget_keeper import BudgetKeeper
from mcpd.daemon.upkeep.ledger_keeper import LedgerKeeper
from mcpd.daemon.upkeep.manager_status import ManagerStatus
from mcpd.daemon.upkeep.place_keeper import PlaceKeeper
from mcpd.daemon.upkeep.problems import problems
from mcpd.daemon.upkeep.socket_keeper import SocketKeeper
from mcpd.daemon_start.place import Place
from mcpd.ids import SessionId
from mcpd.listeners.control import ControlServer
from mcpd.listeners.requests import ControlRequests
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.logfiles.quota import LogQuota
from mcpd.observe.journal import Journal
from mcpd.observe.observer import Observer
from mcpd.observe.pipeline import Pipeline
from mcpd.schemas.suggest import nearest
from mcpd.service import bind
from mcpd.service.lock import DaemonLock
from mcpd.service.notify import Notifier
from mcpd.supervise.cleanup.ledger import new_daemon_id
from mcpd.supervise.containers import Containers
from mcpd.supervise.loginenv import loginpath
from mcpd.supervise.loginenv.loginshell import LoginShell
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.host import UpstreamHost
from mcpd.upstreams.http.authorizer import Authorizer
from mcpd.upstreams.http.host import RemoteHost
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.http.static import StaticAuthorizer
from mcpd.upstreams.run import Backend
from mcpd.upstreams.stdio.host import StdioHost, end_stray
from mcpd.upstreams.stdio.run import Surroundings
from mcpd.upstreams.stdio.spec import ProcessSpec
from mcpd.upstreams.supervisor import Supervisor

if TYPE_CHECKING:
    from mcpd.daemon.login_handlers import LoginHandlers
    from mcpd.secrets.lookup import Lookup
    from mcpd.signin.process import Spawn
    from mcpd.signin.signins import SignIns

SECRET_BYTES = 32
"""Random bytes of the secret from which the mux makes handles."""

QUESTION_BYTES = 5
"""Random bytes of the first id of our requests to clients. JavaScript must hold ids as numbers."""


class Flags(Protocol):
    """The command line, as far as it concerns a running daemon."""

    config: str | None
    log_level: str | None


class Start(Protocol):
    """What was found before the loop ran."""

    @property
    def options(self) -> Flags: ...

    umask: int
    """The umask that servers get."""

    nofile_soft: int
    """The soft limit on open files that servers get."""

    signals: list[int]
    """The signals that have come already."""

    notifier: Notifier
    """The connection to the service manager."""


class Daemon:
    """The parts of a daemon.

    Where one part calls back another that is built later, it is given a method of this class.
    """

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
        """Read the configuration and build what it asks for.

        ``path`` is that of the socket, ``identity`` its file, ``None`` for one that was lent.
        """
        self.start = start
        self.pipeline = pipeline
        self.log = log = pipeline.logger
        self.lines = lines
        self.state_dir = state_dir
        self.path = path
        self.id = new_daemon_id()
        self.notices = Notices(log)
        self.journal = Journal()
        self.facts = Facts()
        self.loaded = self._build_configuration()
        self._build_core()
        self._build_upstreams()
        self._build_servers()
        self._build_downstreams(lock, listening, identity)
        self._build_control()
        self._subscribe()

    def _build_configuration(self) -> Loaded:
        """Build what reads and holds the configuration, and read it."""
        start, log, notices = self.start, self.log, self.notices
        self.cache = CatalogCache(self.state_dir, on_trouble=notices.cache_trouble)
        self.log_quota = LogQuota(
            self.state_dir, known=self._log_files, on_removed=notices.logs_removed
        )
        self.pins = PinStore(
            self.state_dir, on_lost=self._pins_lost, on_trouble=notices.pins_trouble
        )
        self.registry = Registry(
            self.state_dir,
            self.cache,
            self.pins,
            dict(os.environ),
            on_log_growth=self.log_quota.grew,
            on_log_trouble=notices.log_trouble,
        )
        self.lines.on_growth = self.log_quota.grew
        self.pipeline.mask = self.registry.mask
        self.since = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        self.reloader = Reloader(
            start.options.config,
            self.since,
            registry=self.registry,
            applied=self._apply,
            login=self._login_variables,
            log=log,
            journal=self.journal,
        )
        self.reloader.watch()
        loaded = self.reloader.read()
        self.registry.apply(loaded)
        self.reloader.watch()
        return loaded

    def _build_core(self) -> None:
        """Build the mux, its clock, and what passes events to it."""
        settings = self._settings()
        self.mux = Mux(
            Settings(
                version=__version__,
                max_request_bytes=settings.max_request_bytes,
                list_wait=settings.list_wait,
                secret=os.urandom(SECRET_BYTES),
                max_buffered_bytes=settings.max_buffered_bytes,
                first_approval=rules_file.first_number(self.state_dir),
                first_question=int.from_bytes(os.urandom(QUESTION_BYTES), "big") + 1,
            ),
            suggest=nearest,
        )
        loop = asyncio.get_running_loop()
        self.clock = Clock(loop, on_gap=self._jumped)
        self.dispatcher = Dispatcher(self.mux, self.clock)
        self.mux.context.unfinished = self.dispatcher.unfinished
        self.audit = AuditKeeper(
            self.state_dir,
            dispatcher=self.dispatcher,
            registry=self.registry,
            notices=self.notices,
            journal=self.journal,
        )

    def _build_upstreams(self) -> None:
        """Build what starts, stops and speaks to servers."""
        start, registry, tell = self.start, self.registry, self.facts.publish
        self.budgets = BudgetKeeper(
            os.path.join(self.state_dir, budget_keeper.FILE_NAME),
            lambda spent: self.dispatcher.dispatch(DayBegan(spent)),
            self.notices.budget_trouble,
        )
        self.ledger = LedgerKeeper(self.state_dir, self.id, on_trouble=self.notices.ledger_trouble)
        self.reaper = Reaper(
            self.id, on_orphan=lambda stray: end_stray(stray, tell), on_escape=self.ledger.save
        )
        self.login = LoginShell(
            os.environ,
            reaper=self.reaper,
            daemon_id=self.id,
            on_result=self.notices.login_path,
            on_variables=self._login_answered,
            keeps_variables=lambda: self._settings().shell_env,
        )
        self.unresolved = UnresolvedHost(self.login, self._reload_for_variables)
        self.reloader.ask = self.unresolved.ask
        self.hosts: dict[type[Backend], UpstreamHost[Any]] = {UnresolvedSpec: self.unresolved}
        self.secrets = ServerSecrets(lambda: self._lookup, learned=self._learned, tell=tell)
        processes = StdioHost(
            daemon_id=self.id,
            reaper=self.reaper,
            login=self.login,
            surroundings=Surroundings(
                ledger=self.ledger,
                containers=Containers(self.state_dir, self.id),
                noise_of=self.mux.said_instead,
                now=self.clock.now,
                tell=tell,
                group=tasks.Group(),
            ),
            log_of=registry.log,
            settings=self._settings,
            memory=self.mux.memory,
            umask=start.umask,
            nofile_soft=start.nofile_soft,
        )
        self.hosts[ProcessSpec] = WithSecrets(processes, self.secrets)
        self.remote_host = RemoteHost(
            authorizer=self._authorizer,
            environment=registry.environment,
            settings=self._settings,
            memory=self.mux.memory,
        )
        self.hosts[RemoteSpec] = WithSecrets(self.remote_host, self.secrets)
        self.supervisor = Supervisor(
            self.hosts,
            servers=registry,
            events=self.dispatcher,
            now=self.clock.now,
            tell=tell,
            starts_at_once=starts_at_once(self._settings().max_concurrent_starts),
        )
        self.dispatcher.connect(self.supervisor)

    def _build_servers(self) -> None:
        """Build what brings, starts, stops and watches servers."""
        dispatch = self.dispatcher.dispatch
        self.control = ServerControl(
            self.registry, self.mux, self.supervisor, dispatch, self.unresolved.wait
        )
        self.ad_hoc = AdHoc(self.registry, self.mux, self._apply_entries)
        self.projects = Projects(
            self.registry,
            self.state_dir,
            self.since,
            changed=self._apply_entries,
            log=self.log,
            journal=self.journal,
        )
        self.clients = ClientProcesses(self.mux)
        self.memory_watch = MemoryWatch(
            self.registry.memory_max,
            supervisor=self.supervisor,
            reaper=self.reaper,
            mux=self.mux,
            tell=self.facts.publish,
        )
        self.checks = ArgumentChecks(self.reaper, dispatch)
        self.examinations = Examinations(dispatch)

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
        self.handlers = ControlHandlers(
            socket=self.path,
            config=self._config_file,
            registry=self.registry,
            mux=self.mux,
            supervisor=self.supervisor,
            reaper=self.reaper,
            login=self.login,
            operator=self.control,
            reloader=self.reloader,
            ad_hoc=self.ad_hoc,
            projects=self.projects,
            clients=self.clients,
            logins=self._logins,
            auth=self._auth,
            pins=PinHandlers(self.mux, self.registry, self.control, self.pins),
            renewed=self._renewed,
            log=self.pipeline,
            journal=self.journal,
            dispatch=self.dispatcher.dispatch,
            shutdown=lambda drain: self.ending.request("asked by mcpd/shutdown", drain),
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
            approvals=self.approvals,
            audit=self.audit,
        )
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

    def _jumped(self, seconds: float) -> None:
        self.notices.clock_jumped(seconds)
        self.remote_host.drop_idle()  # after a sleep the network is another one

    def _login_variables(self) -> Login | None:
        """Return what the login shell has, ``None`` if it was not asked yet."""
        if "unresolved" in vars(self):
            return self.unresolved.login
        return None if loginpath.shell_of(os.environ) else NO_LOGIN

    def _login_answered(self) -> None:
        self.unresolved.answered()

    async def _reload_for_variables(self) -> None:
        await self.reloader.reload("the login shell has answered")

    def _pins_lost(self, name: str, what: str) -> None:
        self.notices.pins_lost(name, what)
        self.journal.add("pin.unreadable", server=name, text=what)

    def _settings(self) -> DaemonConfig:
        return self.registry.daemon

    def _log_files(self) -> list[str]:
        return self.registry.log_files()

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

    def _learned(self, secrets: Mapping[str, str]) -> None:
        if self.registry.learn(secrets):
            self._apply_entries()  # the mux quotes servers, too

    def _renewed(self, secret: str) -> list[str]:
        """Replace the processes that use a secret, after their calls in flight."""
        self.secrets.changes += 1
        names = self.registry.renew(secret)
        if names:
            self._apply_entries()
            self.control.renewed(names)
        return names

    @cached_property
    def _lookup(self) -> Lookup:
        """What finds secrets; made, and imported, for the first server that names one."""
        from mcpd.secrets.lookup import Lookup
        from mcpd.secrets.places import KEYRING_S, SERVICE
        from mcpd.signin.process import KeyringProcess

        return Lookup(
            self.state_dir,
            env=os.environ,
            mode=lambda: self.registry.loaded.trust.keyring,
            keyring=KeyringProcess(self._worker, SERVICE, KEYRING_S),
        )

    @property
    def _worker(self) -> Spawn:
        """Starts the process for the keyring and for signing in."""
        return lambda argv, names: worker_processes.spawn(self.reaper, argv, names)

    @cached_property
    def signins(self) -> SignIns:
        """Who is signed in to remote servers; made, and imported, for the first of them."""
        from mcpd.signin.signins import SignIns

        return SignIns(
            self.state_dir,
            spawn=self._worker,
            connect=self._connect,
            tell=self.facts.publish,
            trouble=self.notices.sign_in_trouble,
        )

    def _authorizer(self, spec: RemoteSpec) -> Authorizer:
        """Return what authorises the requests to a server."""
        if spec.remote.can_sign_in:
            return self.signins.authorizer(spec.server, spec.remote)
        return StaticAuthorizer(spec.server, spec.remote.auth)

    def _auth(self, server: str) -> str | None:
        """Return how a sign-in authorises requests to a server; ``None`` where none does."""
        return self.signins.describe(server) if "signins" in vars(self) else None

    async def end_logins(self) -> None:
        """End the sign-ins that are in progress."""
        if "signins" in vars(self):
            await self.signins.close()

    def _logins(self) -> LoginHandlers:
        from mcpd.daemon.login_handlers import LoginHandlers

        return LoginHandlers(self.control, self.signins, self.secrets)

    async def _connect(self, name: str) -> Failure | None:
        """Connect to a server; return why it cannot be used."""
        reached = await self.control.start((name,))
        return reached if isinstance(reached, Failure) else reached[0][1]

    def _serve(self, command: cmd.Control) -> None:
        if command.method == "mcpd/call":
            self.checks.prewarm()
        self.control_server.serve(command)
