"""What a daemon is made of on the side of servers: configuration, core, processes, projects.

Each part is built from the parts above it. Nothing here knows the side of clients.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from mcpd import __version__, tasks
from mcpd.config.diff import Change
from mcpd.config.load import Loaded
from mcpd.config.schema import DaemonConfig
from mcpd.config.texts.resolving import NO_LOGIN, Login
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Settings
from mcpd.core.interface.events import DayBegan
from mcpd.core.mux.mux import Mux
from mcpd.daemon.approvals import rules_file
from mcpd.daemon.audit import AuditKeeper
from mcpd.daemon.client_processes import ClientProcesses
from mcpd.daemon.clock import Clock
from mcpd.daemon.dispatcher import Dispatcher
from mcpd.daemon.facts import Facts
from mcpd.daemon.notices import Notices
from mcpd.daemon.reload import ConfigApplier, Reloader, starts_at_once
from mcpd.daemon.servers.adhoc import AdHoc
from mcpd.daemon.servers.cache import CatalogCache
from mcpd.daemon.servers.control import ServerControl
from mcpd.daemon.servers.credentials import Credentials
from mcpd.daemon.servers.memory_watch import MemoryWatch
from mcpd.daemon.servers.pinstore import PinStore
from mcpd.daemon.servers.projects import Projects
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.secrets import ServerSecrets, WithSecrets
from mcpd.daemon.servers.unresolved import UnresolvedHost, UnresolvedSpec
from mcpd.daemon.upkeep import budget_keeper
from mcpd.daemon.upkeep.budget_keeper import BudgetKeeper
from mcpd.daemon.upkeep.ledger_keeper import LedgerKeeper
from mcpd.daemon.workers.argument_checks import ArgumentChecks
from mcpd.daemon.workers.examination import Examinations
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.logfiles.quota import LogQuota
from mcpd.observe.journal import Journal
from mcpd.observe.pipeline import Pipeline
from mcpd.schemas.suggest import nearest
from mcpd.service.notify import Notifier
from mcpd.supervise.cleanup.ledger import new_daemon_id
from mcpd.supervise.containers import Containers
from mcpd.supervise.loginenv import loginpath
from mcpd.supervise.loginenv.loginshell import LoginShell
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.host import UpstreamHost
from mcpd.upstreams.http.host import RemoteHost
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.run import Backend
from mcpd.upstreams.stdio.host import StdioHost, end_stray
from mcpd.upstreams.stdio.run import Surroundings
from mcpd.upstreams.stdio.spec import ProcessSpec
from mcpd.upstreams.supervisor import Supervisor

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


class ServerSide:
    """The parts of a daemon that deal with servers.

    Where one part calls back another that is built later, it is given a method of this class.
    """

    def __init__(
        self,
        start: Start,
        pipeline: Pipeline,
        lines: DaemonLog,
        *,
        state_dir: str,
        apply_listeners: Callable[[DaemonConfig], None],
    ) -> None:
        """Read the configuration and build what it asks for.

        ``apply_listeners`` opens and closes the listeners for clients, after a change.
        """
        self.start = start
        self.pipeline = pipeline
        self.log = log = pipeline.logger
        self.lines = lines
        self.state_dir = state_dir
        self.id = new_daemon_id()
        self.notices = Notices(log)
        self.journal = Journal()
        self.facts = Facts()
        self.loaded = self._build_configuration()
        self._build_core()
        self._build_processes()
        self._build_upstreams()
        self._build_servers()
        self._build_applier(apply_listeners)

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
        settings = self.settings()
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
        self.budgets = BudgetKeeper(
            os.path.join(self.state_dir, budget_keeper.FILE_NAME),
            lambda spent: self.dispatcher.dispatch(DayBegan(spent)),
            self.notices.budget_trouble,
        )

    def _build_processes(self) -> None:
        """Build what watches processes, and what the login shell and the keyring are asked with."""
        tell = self.facts.publish
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
            keeps_variables=lambda: self.settings().shell_env,
        )
        self.unresolved = UnresolvedHost(self.login, self._reload_for_variables)
        self.reloader.ask = self.unresolved.ask
        self.credentials = Credentials(
            self.state_dir,
            registry=self.registry,
            reaper=self.reaper,
            connect=self._connect,
            tell=tell,
            trouble=self.notices.sign_in_trouble,
        )
        self.secrets = ServerSecrets(
            lambda: self.credentials.lookup, learned=self._learned, tell=tell
        )

    def _build_upstreams(self) -> None:
        """Build what starts, stops and speaks to servers, for each kind of them."""
        start, registry, tell = self.start, self.registry, self.facts.publish
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
            settings=self.settings,
            memory=self.mux.memory,
            umask=start.umask,
            nofile_soft=start.nofile_soft,
        )
        self.remote_host = RemoteHost(
            authorizer=self.credentials.authorizer,
            environment=registry.environment,
            settings=self.settings,
            memory=self.mux.memory,
        )
        self.hosts: dict[type[Backend], UpstreamHost[Any]] = {
            UnresolvedSpec: self.unresolved,
            ProcessSpec: WithSecrets(processes, self.secrets),
            RemoteSpec: WithSecrets(self.remote_host, self.secrets),
        }
        self.supervisor = Supervisor(
            self.hosts,
            servers=registry,
            events=self.dispatcher,
            now=self.clock.now,
            tell=tell,
            starts_at_once=starts_at_once(self.settings().max_concurrent_starts),
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
        self.client_processes = ClientProcesses(self.mux)
        self.memory_watch = MemoryWatch(
            self.registry.memory_max,
            supervisor=self.supervisor,
            reaper=self.reaper,
            mux=self.mux,
            tell=self.facts.publish,
        )
        self.checks = ArgumentChecks(self.reaper, dispatch)
        self.examinations = Examinations(dispatch)

    def _build_applier(self, apply_listeners: Callable[[DaemonConfig], None]) -> None:
        """Build what makes all of this follow the configuration."""
        self.applier = ConfigApplier(
            log_level=self.start.options.log_level,
            registry=self.registry,
            pipeline=self.pipeline,
            lines=self.lines,
            log_quota=self.log_quota,
            dispatcher=self.dispatcher,
            supervisor=self.supervisor,
            control=self.control,
            memory_watch=self.memory_watch,
            apply_listeners=apply_listeners,
            projects=self.projects,
        )
        self.reloader.look_at_projects = self.projects.look
        self.applier.apply_log_limits()

    def settings(self) -> DaemonConfig:
        """Return the settings of the daemon, as they are now."""
        return self.registry.daemon

    def renewed(self, secret: str) -> list[str]:
        """Replace the processes that use a secret, after their calls in flight."""
        self.secrets.changes += 1
        names = self.registry.renew(secret)
        if names:
            self._apply_entries()
            self.control.renewed(names)
        return names

    # -- called back by parts that are built before what they need ---------------------------------

    def _apply(self, change: Change) -> None:
        self.audit.apply()
        self.applier.apply(change)

    def _apply_entries(self) -> None:
        self.applier.apply_entries()

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

    def _log_files(self) -> list[str]:
        return self.registry.log_files()

    def _learned(self, secrets: Mapping[str, str]) -> None:
        if self.registry.learn(secrets):
            self._apply_entries()  # the mux quotes servers, too

    async def _connect(self, name: str) -> Failure | None:
        """Connect to a server; return why it cannot be used."""
        reached = await self.control.start((name,))
        return reached if isinstance(reached, Failure) else reached[0][1]
