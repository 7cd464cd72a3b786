"""The table of control methods, and the object whose methods it names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from mcpd import __version__
from mcpd.api import requests as api
from mcpd.api import results
from mcpd.api.approvals import Approvals, Approved, Forgotten, RuleList
from mcpd.api.status import Status
from mcpd.api.version import API
from mcpd.core.facts import Failure
from mcpd.core.interface.events import (
    AcceptPins,
    Approve,
    CallTool,
    Forget,
    GetPrompt,
    ListItems,
    ReadResource,
)
from mcpd.core.mux.mux import Mux
from mcpd.daemon.approvals.keeper import ApprovalKeeper
from mcpd.daemon.audit import AuditKeeper
from mcpd.daemon.client_processes import ClientProcesses
from mcpd.daemon.control.pin_handlers import PinHandlers
from mcpd.daemon.control.project_handlers import ProjectHandlers
from mcpd.daemon.control.server_handlers import ServerHandlers
from mcpd.daemon.control.stream_handlers import StreamHandlers
from mcpd.listeners.requests import Encoded, Method, Request
from mcpd.observe.journal import Journal

if TYPE_CHECKING:
    from mcpd.daemon.control.login_handlers import LoginHandlers

Sign = TypeVar("Sign", api.LoginParams, api.PasteParams)


class ControlHandlers:
    """Handles the control methods; ``METHODS`` names the handler of each.

    A handler takes the request and its decoded parameters. It returns the result, a ``Failure``,
    or an event for the mux, which then answers the request.
    """

    def __init__(
        self,
        *,
        config: str | None,
        mux: Mux,
        servers: ServerHandlers,
        streams: StreamHandlers,
        projects: ProjectHandlers,
        pins: PinHandlers,
        logins: Callable[[], LoginHandlers],
        clients: ClientProcesses,
        approvals: ApprovalKeeper,
        audit: AuditKeeper,
        journal: Journal,
        renewed: Callable[[str], list[str]],
        shutdown: Callable[[float | None], None],
    ) -> None:
        """Take the handlers of each group of methods, and what the other methods ask.

        ``config`` is the only configuration file, where the daemon was given one. ``logins``
        returns what handles sign-ins, which is imported for it. ``clients`` tells who may not
        decide for a person. ``renewed`` replaces what uses a secret, and returns the names of those
        servers; ``shutdown`` ends the daemon and takes the seconds that calls in flight may take.
        """
        self._config = config
        self._mux = mux
        self._servers = servers
        self._streams = streams
        self._projects = projects
        self._pins = pins
        self._logins = logins
        self._clients = clients
        self._approvals = approvals
        self._audit = audit
        self._journal = journal
        self._renewed = renewed
        self._shutdown = shutdown

    def uptime_s(self) -> float:
        """Return how long the daemon has run, in seconds."""
        return self._servers.uptime_s()

    # -- the daemon ------------------------------------------------------------------------------

    def hello(self, request: Request, params: api.HelloParams) -> results.Hello:
        """Introduce the daemon; note where the connection makes its control calls from."""
        if params.cwd is not None and params.cwd.startswith("/"):
            self._projects.enter(request.session, params.cwd)
        return {
            "version": __version__,
            "pid": os.getpid(),
            "api": API,
            "uptime_s": round(self.uptime_s(), 3),
            "config": self._config,
        }

    async def status(self, request: Request, params: api.StatusParams) -> Status | Failure:
        """Return the state of the daemon, and of all servers or of some."""
        return await self._servers.status(request, params)

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

    def approvals(self, request: Request, params: api.ApprovalsParams) -> Approvals | Failure:
        """List the questions that are open; with ``follow``, a stream tells of them."""
        return self._approvals.approvals(request, params, self._journal.last)

    def approve(self, request: Request, params: api.ApproveParams) -> Approve | Failure:
        """Answer a question."""
        return self._approvals.approve(request, params)

    def rules(self, _request: Request, _params: api.Params) -> RuleList:
        """List the answers that are remembered."""
        return self._approvals.rules()

    def forget(self, request: Request, params: api.ForgetParams) -> Forget | Failure:
        """Forget answers."""
        return self._approvals.forget(request, params)

    # -- servers and their configuration ---------------------------------------------------------

    def entries(self, request: Request, params: api.Params) -> results.Entries:
        """List the entries of the configuration with their effective values, secrets masked."""
        return self._servers.entries(request, params)

    async def start(
        self, request: Request, params: api.ServersParams
    ) -> results.AllReached | Failure:
        """Start servers and wait until they are ready."""
        return await self._servers.start(request, params)

    async def stop(
        self, request: Request, params: api.ServersParams
    ) -> results.AllReached | Failure:
        """Stop servers and wait until their process trees have ended."""
        return await self._servers.stop(request, params)

    async def restart(
        self, request: Request, params: api.ServersParams
    ) -> results.AllReached | Failure:
        """Restart servers and wait until they are ready again."""
        return await self._servers.restart(request, params)

    async def reload(self, request: Request, params: api.Params) -> results.Reloaded:
        """Read the configuration again and apply what has changed."""
        return await self._servers.reload(request, params)

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

    def projects(self, request: Request, params: api.ProjectsParams) -> results.Projects | Failure:
        """Return what projects offer: of one directory, or those that somebody works in."""
        return self._projects.projects(request, params)

    def trust(self, request: Request, params: api.TrustParams) -> results.Trusted | Failure:
        """Remember what a person trusts, unless it is a client that asks, or below one."""
        return self._projects.trust(request, params)

    # -- streams ---------------------------------------------------------------------------------

    async def logs(
        self, request: Request, params: api.LogsParams
    ) -> Encoded[results.Logs] | Failure:
        """Return the newest lines of a log; with ``follow``, a stream brings those that come."""
        return await self._streams.logs(request, params)

    def events(self, request: Request, params: api.EventsParams) -> results.Events | Failure:
        """Return the number of the newest event; a stream brings those since ``since``."""
        return self._streams.events(request, params)

    def _to_sign_in(self, request: Request, params: Sign) -> Sign:
        """Have ``params`` name the server that its name means where the request comes from."""
        params.server = self._mux.named(params.server, request.session)
        return params


METHODS: Final = (
    Method("mcpd/hello", api.HelloParams, results.Hello, ControlHandlers.hello),
    Method("mcpd/status", api.StatusParams, Status, ControlHandlers.status),
    Method("mcpd/call", api.CallParams, results.ServerResult, ControlHandlers.call),
    Method("mcpd/tools", api.ListingParams, results.Tools, ControlHandlers.tools),
    Method("mcpd/prompts", api.ListingParams, results.Prompts, ControlHandlers.prompts),
    Method("mcpd/resources", api.ListingParams, results.Resources, ControlHandlers.resources),
    Method("mcpd/read", api.ReadParams, results.ServerResult, ControlHandlers.read),
    Method("mcpd/prompt", api.PromptParams, results.ServerResult, ControlHandlers.prompt),
    Method("mcpd/approvals", api.ApprovalsParams, Approvals, ControlHandlers.approvals),
    Method("mcpd/approve", api.ApproveParams, Approved, ControlHandlers.approve),
    Method("mcpd/rules", api.Params, RuleList, ControlHandlers.rules),
    Method("mcpd/forget", api.ForgetParams, Forgotten, ControlHandlers.forget),
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
