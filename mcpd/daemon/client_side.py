"""What a daemon is made of on the side of clients: connections, HTTP, control requests.

It uses the parts of the side of servers, which is built before it.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from mcpd import daemon_process, paths
from mcpd.api.requests import AttachParams
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
from mcpd.daemon.server_side import ServerSide
from mcpd.daemon.upkeep.manager_status import ManagerStatus
from mcpd.daemon.upkeep.place_keeper import PlaceKeeper
from mcpd.daemon.upkeep.problems import problems
from mcpd.daemon.upkeep.socket_keeper import SocketKeeper
from mcpd.daemon_start.place import Place
from mcpd.ids import SessionId
from mcpd.listeners.control import ControlServer
from mcpd.listeners.requests import ControlRequests
from mcpd.service import bind
from mcpd.service.lock import DaemonLock

if TYPE_CHECKING:
    from mcpd.daemon.control.login_handlers import LoginHandlers


class ClientSide:
    """The parts of a daemon that deal with clients."""

    def __init__(
        self,
        servers: ServerSide,
        *,
        path: str,
        lock: DaemonLock,
        listening: socket.socket,
        identity: bind.Identity | None,
    ) -> None:
        """Build them from the side of servers.

        ``path`` is that of the socket, ``identity`` its file, ``None`` for one that was lent.
        """
        self._servers = servers
        self.path = path
        self._build_downstreams(lock, listening, identity)
        self._build_approvals()
        self._build_control()

    def _build_downstreams(
        self, lock: DaemonLock, listening: socket.socket, identity: bind.Identity | None
    ) -> None:
        """Build what accepts clients, and what ends their sessions with the daemon."""
        servers = self._servers
        self.sessions = Sessions(servers.dispatcher)
        self.unix = UnixSessions(
            listening,
            mux=servers.mux,
            sessions=self.sessions,
            dispatch=servers.dispatcher.dispatch,
            settings=servers.settings,
            connected=servers.client_processes.connected,
            closed=self._closed,
            refused=servers.notices.connection_refused,
            broken=servers.notices.connection_broken,
        )
        self.listeners = Listeners(lambda config: {self.path: lambda: self.unix.listener})
        self.http = HttpSwitch(
            lambda: servers.registry.http,
            servers.notices.http_trouble,
            state_dir=servers.state_dir,
            mux=servers.mux,
            sessions=self.sessions,
            registry=servers.registry,
            notices=servers.notices,
            record=servers.audit.event,
        )
        self.drain = Drain(servers.dispatcher, servers.supervisor, self.listeners, self.http)
        self.ending = Ending(self.drain)
        self.socket_keeper = SocketKeeper(
            self.path,
            lock,
            identity,
            is_lent=identity is None,
            replace=self.unix.listener.replace,
            lost=self.ending.request,
            refused=lambda refusal: servers.notices.socket_refused(self.path, refusal),
        )
        self.place_keeper = PlaceKeeper(
            Place(
                socket=self.path,
                state_dir=servers.state_dir,
                config=self._config_file,
                config_home=paths.config_home(),
                pid=os.getpid(),
                start_time=daemon_process.start_time(os.getpid()) or "",
            ),
            servers.notices.place_trouble,
        )

    def _build_approvals(self) -> None:
        """Build what asks people whether calls may run."""
        servers = self._servers
        self.approvals = ApprovalKeeper(
            servers.state_dir,
            mux=servers.mux,
            desktop=Desktop(
                servers.reaper, is_on=lambda: servers.registry.loaded.trust.notify == "auto"
            ),
            now=servers.clock.now,
            dispatch=servers.dispatcher.dispatch,
            peer_of=self.unix.peer_of,
            notify=self.sessions.notify,
        )

    def _build_control(self) -> None:
        """Build what answers control requests and tells the service manager."""
        servers = self._servers
        self.handlers = self._build_handlers()
        self.control_server = ControlServer(
            ControlRequests(METHODS, self.handlers),
            server_of_command=servers.ad_hoc.bring,
            attaching=self._attaching,
            dispatch=servers.dispatcher.dispatch,
            notify=self.sessions.notify,
        )
        self.manager_status = ManagerStatus(
            servers.start.notifier, servers.registry, servers.mux, servers.supervisor
        )

    def _build_handlers(self) -> ControlHandlers:
        """Build what answers each group of control methods."""
        servers = self._servers
        return ControlHandlers(
            config=self._config_file,
            mux=servers.mux,
            servers=ServerHandlers(
                socket=self.path,
                registry=servers.registry,
                mux=servers.mux,
                supervisor=servers.supervisor,
                reaper=servers.reaper,
                login=servers.login,
                operator=servers.control,
                reloader=servers.reloader,
                ad_hoc=servers.ad_hoc,
                auth=servers.credentials.auth,
                problems=lambda: problems(
                    self.socket_keeper,
                    self.place_keeper,
                    servers.ledger,
                    servers.cache,
                    servers.pins,
                    servers.registry,
                    self.http,
                    servers.audit,
                    self.approvals,
                ),
                others=self.place_keeper.others,
                http=lambda: self.http.addresses,
                declining=lambda: self.approvals.declining,
            ),
            streams=StreamHandlers(
                servers.mux, servers.registry, servers.control, servers.pipeline, servers.journal
            ),
            projects=ProjectHandlers(
                servers.projects, servers.client_processes, servers.dispatcher.dispatch
            ),
            pins=PinHandlers(servers.mux, servers.registry, servers.control, servers.pins),
            logins=self._logins,
            clients=servers.client_processes,
            approvals=self.approvals,
            audit=servers.audit,
            journal=servers.journal,
            renewed=servers.renewed,
            shutdown=lambda drain: self.ending.request("asked by mcpd/shutdown", drain),
        )

    @property
    def _config_file(self) -> str | None:
        """The only file that is read, where one was named."""
        return self._servers.start.options.config or os.environ.get("MCPD_CONFIG") or None

    # -- called back by parts that are built before what they need ---------------------------------

    def _attaching(self, session: SessionId, params: AttachParams, workspace: str | None) -> None:
        servers = self._servers
        servers.client_processes.attached(session, params)
        servers.projects.enter(session, workspace, is_session=True)

    def _closed(self, session: SessionId) -> None:
        servers = self._servers
        servers.client_processes.closed(session)
        servers.projects.leave(session)

    def _logins(self) -> LoginHandlers:
        from mcpd.daemon.control.login_handlers import LoginHandlers

        servers = self._servers
        return LoginHandlers(servers.control, servers.credentials.signins, servers.secrets)

    def serve(self, command: cmd.Control) -> None:
        """Answer a control request."""
        if command.method == "mcpd/call":
            self._servers.checks.prewarm()
        self.control_server.serve(command)
