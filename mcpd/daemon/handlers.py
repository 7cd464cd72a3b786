"""Handlers of the control methods, and the table that names them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import Raw

from mcpd import __version__
from mcpd.api import requests as api
from mcpd.api import results
from mcpd.api.status import Status
from mcpd.api.version import API
from mcpd.config.entry import masked
from mcpd.core.facts import Failure
from mcpd.core.interface.events import (
    AcceptPins,
    Approve,
    CallTool,
    Forget,
    GetPrompt,
    ListItems,
    ReadResource,
    WorkspaceKnown,
)
from mcpd.core.interface.failures import with_details
from mcpd.core.mcp import codes
from mcpd.core.mux.mux import Mux
from mcpd.daemon import status as snapshots
from mcpd.daemon.approvals import ApprovalKeeper
from mcpd.daemon.audit import AuditKeeper
from mcpd.daemon.client_processes import ClientProcesses
from mcpd.daemon.pin_handlers import PinHandlers
from mcpd.daemon.reload import Reloader
from mcpd.daemon.servers.adhoc import AdHoc
from mcpd.daemon.servers.control import Reached, ServerControl
from mcpd.daemon.servers.projects import Projects
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.server import Server
from mcpd.daemon_start.place import Place
from mcpd.listeners.requests import Method, Request, Send, Unsubscribe
from mcpd.logfiles.serverlog import ServerLog
from mcpd.observe.journal import Event, Journal
from mcpd.observe.pipeline import Pipeline
from mcpd.projects.workspace import workspace_of
from mcpd.redact import MASK
from mcpd.supervise.loginenv.loginshell import LoginShell
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.supervisor import Supervisor

if TYPE_CHECKING:
    from mcpd.daemon.login_handlers import LoginHandlers

Sign = TypeVar("Sign", api.LoginParams, api.PasteParams)


SHELL_S: Final = 2.0
"""How long a reload waits for the variables of the login shell, to tell which are not set."""


class ControlHandlers:
    """Handles the control methods; ``METHODS`` names the handler of each.

    A handler takes the request and its decoded parameters. It returns the result, a ``Failure``,
    or an event for the mux, which then answers the request.
    """

    def __init__(
        self,
        *,
        socket: str,
        config: str | None,
        registry: Registry,
        mux: Mux,
        supervisor: Supervisor,
        reaper: Reaper,
        login: LoginShell,
        operator: ServerControl,
        reloader: Reloader,
        ad_hoc: AdHoc,
        projects: Projects,
        clients: ClientProcesses,
        logins: Callable[[], LoginHandlers],
        auth: Callable[[str], str | None],
        pins: PinHandlers,
        renewed: Callable[[str], list[str]],
        log: Pipeline,
        journal: Journal,
        dispatch: Callable[[WorkspaceKnown], None],
        shutdown: Callable[[float | None], None],
        problems: Callable[[], list[str]],
        others: Callable[[], Awaitable[list[Place]]],
        http: Callable[[], list[str]],
        approvals: ApprovalKeeper,
        audit: AuditKeeper,
    ) -> None:
        """Take what the handlers ask.

        ``socket`` is the path of the socket and ``config`` the only configuration file, where the
        daemon was given one. ``shutdown`` ends the daemon and takes the seconds that calls in
        flight may take; ``problems`` returns what the daemon cannot write or use, a sentence
        each, ``others`` other daemons of this home directory, ``http`` the addresses on which it
        listens for HTTP. ``logins`` returns what handles
        sign-ins, which is imported for it, ``auth`` how a sign-in authorises requests to a server.
        ``pins`` answers what is asked about definitions.
        ``renewed`` replaces what uses a secret, and returns the names of those servers.
        """
        self._socket = socket
        self._config = config
        self._registry = registry
        self._mux = mux
        self._supervisor = supervisor
        self._reaper = reaper
        self._login = login
        self._operator = operator
        self._reloader = reloader
        self._ad_hoc = ad_hoc
        self._projects = projects
        self._clients = clients
        self._logins = logins
        self._auth = auth
        self._pins = pins
        self._renewed = renewed
        self._log = log
        self._journal = journal
        self._dispatch = dispatch
        self._shutdown = shutdown
        self._problems = problems
        self._others = others
        self._http = http
        self._approvals = approvals
        self._audit = audit
        self._started_at = asyncio.get_running_loop().time()

    def uptime_s(self) -> float:
        """Return how long the daemon has run, in seconds."""
        return asyncio.get_running_loop().time() - self._started_at

    # -- the daemon ------------------------------------------------------------------------------

    def hello(self, request: Request, params: api.HelloParams) -> results.Hello:
        """Introduce the daemon; note where the connection makes its control calls from."""
        if params.cwd is not None and params.cwd.startswith("/"):
            workspace = workspace_of((), params.cwd)
            self._projects.enter(request.session, workspace)
            self._dispatch(WorkspaceKnown(request.session, workspace))
        return {
            "version": __version__,
            "pid": os.getpid(),
            "api": API,
            "uptime_s": round(self.uptime_s(), 3),
            "config": self._config,
        }

    async def status(self, request: Request, params: api.StatusParams) -> Status | Failure:
        """Return the state of the daemon, and of all servers or of some."""
        if params.servers is None:
            found: list[Server] | Failure = list(self._registry)
        else:
            found = self._operator.find(self._meant(request, params.servers))
        if isinstance(found, Failure):
            return found
        seen = await snapshots.snapshot(self._mux, self._supervisor, self._reaper, self._auth)
        return {
            "daemon": seen.daemon(
                self._socket,
                self.uptime_s(),
                problems=self._problems(),
                others=await self._others(),
                http=self._http(),
                declining=self._approvals.declining,
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

    def shutdown(self, _request: Request, params: api.ShutdownParams) -> results.ShuttingDown:
        """End the daemon, once this was answered."""
        asyncio.get_running_loop().call_soon(self._shutdown, params.drain)
        return {}

    # -- what servers answer, through the mux ----------------------------------------------------

    def call(self, request: Request, params: api.CallParams) -> CallTool:
        """Call a tool. Whether the arguments fit is left to the tool's schema."""
        arguments = bytes(params.arguments)
        return CallTool(
            session=request.session,
            key=request.key,
            server=params.server,
            tool=params.tool,
            arguments=None if arguments == b"null" else arguments,
            timeout=params.timeout,
            wants_progress=params.progress,
            approvals=params.approvals,
        )

    def tools(self, request: Request, params: api.ListingParams) -> ListItems:
        """List tools of one server or of all."""
        return ListItems(request.session, request.key, ("tools",), params.server)

    def prompts(self, request: Request, params: api.ListingParams) -> ListItems:
        """List prompts of one server or of all."""
        return ListItems(request.session, request.key, ("prompts",), params.server)

    def resources(self, request: Request, params: api.ListingParams) -> ListItems:
        """List resources and their templates, of one server or of all."""
        kinds = ("resources", "templates")
        return ListItems(request.session, request.key, kinds, params.server)

    def read(self, request: Request, params: api.ReadParams) -> ReadResource:
        """Read a resource."""
        return ReadResource(request.session, request.key, params.server, params.uri)

    def prompt(self, request: Request, params: api.PromptParams) -> GetPrompt | Failure:
        """Get a prompt. Its arguments are an object or missing."""
        arguments = bytes(params.arguments)
        if arguments != b"null" and not arguments.startswith(b"{"):
            return Failure("invalid_params", "params.arguments: expected `object`")
        given = None if arguments == b"null" else arguments
        return GetPrompt(request.session, request.key, params.server, params.name, given)

    # -- who says whether a call may run -----------------------------------------------------------

    def approvals(
        self, request: Request, params: api.ApprovalsParams
    ) -> results.Approvals | Failure:
        """List the questions that are open; with ``follow``, a stream tells of them."""
        return self._approvals.approvals(request, params, self._journal.last)

    def approve(self, request: Request, params: api.ApproveParams) -> Approve | Failure:
        """Answer a question."""
        return self._approvals.approve(request, params)

    def rules(self, _request: Request, _params: api.Params) -> results.RuleList:
        """List the answers that are remembered."""
        return self._approvals.rules()

    def forget(self, request: Request, params: api.ForgetParams) -> Forget | Failure:
        """Forget answers."""
        return self._approvals.forget(request, params)

    # -- servers and their configuration ---------------------------------------------------------

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

    # -- definitions -----------------------------------------------------------------------------

    def pins(self, _request: Request, params: api.PinsParams) -> results.AllPinned | Failure:
        """Return what is approved of the definitions of servers."""
        return self._pins.pins(params)

    def pin_accept(self, request: Request, params: api.PinAcceptParams) -> AcceptPins | Failure:
        """Approve definitions that a person was shown."""
        return self._clients.refusal(request.session) or self._pins.accept(request, params)

    async def inspect(
        self, _request: Request, params: api.InspectParams
    ) -> results.Inspected | Failure:
        """Return what is found in the definitions of servers."""
        return await self._pins.inspect(params)

    async def audit(self, _request: Request, params: api.AuditParams) -> results.Audit | Failure:
        """Return calls that were recorded, once those that have ended are written."""
        return await self._audit.calls(params)

    # -- signing in ------------------------------------------------------------------------------

    async def login(self, request: Request, params: api.LoginParams) -> results.Login | Failure:
        """Begin or join a sign-in to a server."""
        return await self._logins().login(self._to_sign_in(request, params))

    async def login_wait(
        self, request: Request, params: api.LoginParams
    ) -> results.SignedIn | Failure:
        """Wait for the end of a sign-in."""
        return await self._logins().wait(self._to_sign_in(request, params))

    async def login_paste(
        self, request: Request, params: api.PasteParams
    ) -> results.Pasted | Failure:
        """Take the address at which a browser ended."""
        return await self._logins().paste(self._to_sign_in(request, params))

    async def logout(
        self, request: Request, params: api.LoginParams
    ) -> results.LoggedOut | Failure:
        """Revoke and forget the tokens of a server."""
        return await self._logins().logout(self._to_sign_in(request, params))

    # -- secrets ---------------------------------------------------------------------------------

    async def secret_changed(
        self, _request: Request, params: api.SecretParams
    ) -> results.SecretChanged:
        """Have the servers that use a secret start with what was set.

        It is a task of its own: the mux knows the new entries before an eager server starts.
        """
        return {"name": params.name, "servers": self._renewed(params.name)}

    # -- projects --------------------------------------------------------------------------------

    def projects(self, _request: Request, params: api.ProjectsParams) -> results.Projects | Failure:
        """Return what projects offer: of one directory, or those that somebody works in."""
        if params.dir is not None and not params.dir.startswith("/"):
            return Failure("invalid_params", "mcpd/projects: params.dir: expected an absolute path")
        known = self._projects.known() if params.dir is None else [self._projects.of(params.dir)]
        return {
            "projects": [
                {
                    "dir": project.workspace,
                    "hash": project.hash,
                    "entries": [
                        {
                            "name": name,
                            "state": state,
                            "file": project.offers[name].file,
                            "hash": project.offers[name].hash,
                        }
                        for name, state in states.items()
                    ],
                    "problems": [str(problem) for problem in project.problems],
                }
                for project, states in known
            ]
        }

    def trust(self, request: Request, params: api.TrustParams) -> results.Trusted | Failure:
        """Remember what a person trusts, unless it is a client that asks, or below one."""
        if not params.dir.startswith("/"):
            return Failure("invalid_params", "mcpd/trust: params.dir: expected an absolute path")
        refusal = self._clients.refusal(request.session)
        if refusal is not None:
            return refusal
        shown = {entry.name: entry.hash for entry in params.entries}
        failure = self._projects.trust(params.dir, shown)
        return {"dir": params.dir, "trusted": list(shown)} if failure is None else failure

    # -- streams ---------------------------------------------------------------------------------

    async def logs(self, request: Request, params: api.LogsParams) -> results.Logs | Failure:
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
        found_lines: list[bytes] = []
        for piece in log.pieces(params.lines):
            if piece:
                found_lines.append(msgspec.json.encode(piece)[1:-1])
                await asyncio.sleep(0)
        return {"lines": Raw(b"[%b]" % b",".join(found_lines))}

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

    # -- inside ------------------------------------------------------------------------------------

    def _meant(self, request: Request, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the servers that names mean where the request comes from."""
        return tuple(self._mux.named(name, request.session) for name in names)

    def _to_sign_in(self, request: Request, params: Sign) -> Sign:
        params.server = self._mux.named(params.server, request.session)
        return params

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


METHODS: Final = (
    Method("mcpd/hello", api.HelloParams, results.Hello, ControlHandlers.hello),
    Method("mcpd/status", api.StatusParams, Status, ControlHandlers.status),
    Method("mcpd/call", api.CallParams, results.ServerResult, ControlHandlers.call),
    Method("mcpd/tools", api.ListingParams, results.Tools, ControlHandlers.tools),
    Method("mcpd/prompts", api.ListingParams, results.Prompts, ControlHandlers.prompts),
    Method("mcpd/resources", api.ListingParams, results.Resources, ControlHandlers.resources),
    Method("mcpd/read", api.ReadParams, results.ServerResult, ControlHandlers.read),
    Method("mcpd/prompt", api.PromptParams, results.ServerResult, ControlHandlers.prompt),
    Method("mcpd/approvals", api.ApprovalsParams, results.Approvals, ControlHandlers.approvals),
    Method("mcpd/approve", api.ApproveParams, results.Approved, ControlHandlers.approve),
    Method("mcpd/rules", api.Params, results.RuleList, ControlHandlers.rules),
    Method("mcpd/forget", api.ForgetParams, results.Forgotten, ControlHandlers.forget),
    Method("mcpd/list", api.Params, results.Entries, ControlHandlers.entries),
    Method("mcpd/start", api.ServersParams, results.AllReached, ControlHandlers.start),
    Method("mcpd/stop", api.ServersParams, results.AllReached, ControlHandlers.stop),
    Method("mcpd/restart", api.ServersParams, results.AllReached, ControlHandlers.restart),
    Method("mcpd/reload", api.Params, results.Reloaded, ControlHandlers.reload),
    Method("mcpd/pins", api.PinsParams, results.AllPinned, ControlHandlers.pins),
    Method(
        "mcpd/pin_accept", api.PinAcceptParams, results.PinsAccepted, ControlHandlers.pin_accept
    ),
    Method("mcpd/inspect", api.InspectParams, results.Inspected, ControlHandlers.inspect),
    Method("mcpd/audit", api.AuditParams, results.Audit, ControlHandlers.audit),
    Method("mcpd/login", api.LoginParams, results.Login, ControlHandlers.login),
    Method("mcpd/login_wait", api.LoginParams, results.SignedIn, ControlHandlers.login_wait),
    Method("mcpd/login_paste", api.PasteParams, results.Pasted, ControlHandlers.login_paste),
    Method("mcpd/logout", api.LoginParams, results.LoggedOut, ControlHandlers.logout),
    Method(
        "mcpd/secret_changed",
        api.SecretParams,
        results.SecretChanged,
        ControlHandlers.secret_changed,
    ),
    Method("mcpd/projects", api.ProjectsParams, results.Projects, ControlHandlers.projects),
    Method("mcpd/trust", api.TrustParams, results.Trusted, ControlHandlers.trust),
    Method("mcpd/logs", api.LogsParams, results.Logs, ControlHandlers.logs),
    Method("mcpd/events", api.EventsParams, results.Events, ControlHandlers.events),
    Method("mcpd/shutdown", api.ShutdownParams, results.ShuttingDown, ControlHandlers.shutdown),
)
"""Every control method. ``mcpd/attach`` is not one: it makes a connection a session."""
