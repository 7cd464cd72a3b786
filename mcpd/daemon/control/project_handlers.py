"""Handles the control methods of projects: what they offer, and what of it a person trusts."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.api import requests as api
from mcpd.api import results
from mcpd.core.facts import Failure
from mcpd.core.interface.events import WorkspaceKnown
from mcpd.daemon.client_processes import ClientProcesses
from mcpd.daemon.servers.projects import Projects
from mcpd.ids import SessionId
from mcpd.listeners.requests import Request
from mcpd.projects.workspace import workspace_of


class ProjectHandlers:
    """Answers what is asked about projects."""

    def __init__(
        self,
        projects: Projects,
        clients: ClientProcesses,
        dispatch: Callable[[WorkspaceKnown], None],
    ) -> None:
        """``clients`` tells who may not decide for a person."""
        self._projects = projects
        self._clients = clients
        self._dispatch = dispatch

    def enter(self, session: SessionId, cwd: str) -> None:
        """Note that a connection makes its control calls from a directory."""
        workspace = workspace_of((), cwd)
        self._projects.enter(session, workspace)
        self._dispatch(WorkspaceKnown(session, workspace))

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
