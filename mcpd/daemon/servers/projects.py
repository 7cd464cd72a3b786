"""Servers of projects: known to the sessions of a workspace, run once a person has trusted them."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mcpd.config.entry import ServerEntry
from mcpd.config.files.watch import FileWatch
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.server import Server, assemble
from mcpd.ids import SessionId
from mcpd.observe.journal import Journal
from mcpd.observe.pipeline import Logger
from mcpd.projects import files, kept
from mcpd.projects.files import Project
from mcpd.projects.kept import Kept, ProjectsError
from mcpd.projects.offer import Offer
from mcpd.projects.states import WAITING, State, states

KEPT_S = 900.0
"""Seconds for which the servers of a workspace are kept after its last connection."""

MOST_WATCHED = 50
"""Workspaces whose files are watched; those of others are read when somebody connects."""

WATCH_AFTER_S = 0.1
"""Seconds in which further workspaces are waited for, before the files of all are watched."""

MOST = 200
"""Workspaces at a time. One more replaces one without connections."""

_EVENTS: Mapping[State, str] = {
    "untrusted": "project.untrusted",
    "changed": "project.changed",
    "trusted": "project.trusted",
}


class _Place:
    """A workspace from which there are connections, or were until lately."""

    def __init__(self) -> None:
        self.connections: set[SessionId] = set()
        self.has_sessions = False
        """Whether one of them was a session: then changes of its files matter at once."""
        self.timer: asyncio.TimerHandle | None = None
        self.project: Project | None = None
        self.states: dict[str, State] = {}
        self.servers: list[Server] = []
        self.is_stale = False
        """Whether its servers were made for another configuration."""


class Projects:
    """Reads the files of each workspace that somebody works in, and adds what they offer.

    Invariant: an entry is resolved, and can be run, only if a person has trusted exactly the
    content that was read, or the directory.
    """

    def __init__(
        self,
        registry: Registry,
        state_dir: str,
        since: str,
        *,
        changed: Callable[[], None],
        log: Logger,
        journal: Journal,
    ) -> None:
        """``changed`` is called after servers were added, changed or removed.

        ``since`` is shown in errors: the time the daemon's environment is from.
        """
        self._registry = registry
        self._path = kept.path_in(state_dir)
        self._since = since
        self._changed = changed
        self._log = log
        self._journal = journal
        self._places: dict[str, _Place] = {}
        self._of: dict[SessionId, str] = {}
        self._watch: FileWatch | None = None
        self._watched: tuple[str, ...] = ()
        self._watch_timer: asyncio.TimerHandle | None = None
        self._trouble: str | None = None
        self._is_closed = False

    def enter(
        self, connection: SessionId, workspace: str | None, *, is_session: bool = False
    ) -> None:
        """Learn what a workspace offers, before a connection from there asks for anything.

        Its files are read again for each connection, so that what it gets is what they say.
        """
        if self._of.get(connection) not in (None, workspace):
            self.leave(connection)
        if workspace is None or not files.is_usable(workspace):
            return
        place = self._places.get(workspace)
        if place is None:
            if len(self._places) >= MOST and not self._drop_one():
                self._log.warning("project.ignored", dir=workspace, why=f"{MOST} are in use")
                return
            place = self._places[workspace] = _Place()
        if place.timer is not None:
            place.timer.cancel()
            place.timer = None
        place.connections.add(connection)
        place.has_sessions = place.has_sessions or is_session
        self._of[connection] = workspace
        self._look((workspace,))
        self._watch_soon()

    def leave(self, connection: SessionId) -> None:
        """Keep the servers of a workspace for ``KEPT_S`` after its last connection has ended."""
        workspace = self._of.pop(connection, None)
        place = None if workspace is None else self._places.get(workspace)
        if workspace is None or place is None:
            return
        place.connections.discard(connection)
        if place.connections:
            return
        self._places[workspace] = self._places.pop(workspace)  # the one left last is the last
        loop = asyncio.get_running_loop()
        place.timer = loop.call_later(KEPT_S, self._forget, workspace)

    def look(self) -> None:
        """Read the files of all workspaces again, and what is trusted."""
        self._look(tuple(self._places))
        self._watch_soon()

    def configured(self) -> None:
        """Follow another configuration: what is trusted, and how servers are told apart."""
        for place in self._places.values():
            place.is_stale = True
        self.look()

    def known(self) -> list[tuple[Project, dict[str, State]]]:
        """Look, and return what the workspaces offer that somebody works in, or did lately."""
        self.look()
        return [(p.project, p.states) for p in self._places.values() if p.project is not None]

    def of(self, workspace: str) -> tuple[Project, dict[str, State]]:
        """Read what a workspace offers, whether somebody works there or not."""
        project = files.read(workspace)
        return project, states(project, self._kept(), self._trusted_projects())

    def trust(self, workspace: str, shown: Mapping[str, str]) -> Failure | None:
        """Remember that a person trusts these servers; return why not.

        ``shown`` has the hash of what the person was shown, by name. Nothing is remembered unless
        the files still say that, nor if there are none: to ask whether one may is no answer.
        """
        if not shown:
            return None
        project = files.read(workspace)
        for name, digest in shown.items():
            offer = project.offers.get(name)
            if offer is None or offer.hash != digest:
                why = f"{name} is not what was shown any more"
                hint = f"look again: {_remedy(workspace)}"
                return Failure("denied", why, name, False, hint, {"reason": "project"})
        offers = [project.offers[name] for name in shown]
        try:
            kept.trust(self._path, project.home, kept.answers(offers, project.directory))
        except ProjectsError as error:
            return Failure("internal", error.message, hint=error.hint)
        self.look()
        return None

    def close(self) -> None:
        """Watch nothing and forget nothing any more."""
        self._is_closed = True
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        for place in self._places.values():
            if place.timer is not None:
                place.timer.cancel()
        self._watch_files(())

    # -- inside ------------------------------------------------------------------------------------

    def _look(self, workspaces: Iterable[str]) -> None:
        remembered, is_changed = self._kept(), False
        for workspace in workspaces:
            place = self._places[workspace]
            before = place.project
            project = self._read(workspace, before)
            found = states(project, remembered, self._trusted_projects())
            if project is before and found == place.states and not place.is_stale:
                continue
            self._tell(place, project, found)
            servers = self._servers(project, found)
            is_changed = is_changed or bool(servers or place.servers)
            place.project, place.states, place.servers = project, found, servers
            place.is_stale = False
        if is_changed:
            self._apply()

    def _read(self, workspace: str, before: Project | None) -> Project:
        if self._registry.daemon.projects:
            return files.read(workspace, before)
        return Project(workspace=workspace, directory=workspace, home=workspace)

    def _apply(self) -> None:
        servers = (server for place in self._places.values() for server in place.servers)
        self._registry.apply_projects(servers)
        self._changed()

    def _servers(self, project: Project, found: Mapping[str, State]) -> list[Server]:
        return [
            self._trusted(project, name) if state == "trusted" else _waiting(project, name)
            for name, state in found.items()
            if state != "never"
        ]

    def _trusted(self, project: Project, name: str) -> Server:
        env = self._registry.environment
        offer, whole = project.offers[name], whole_name(name, project.workspace)
        configured = offer.entry(whole, project.directory, env, self._since)
        server = assemble(configured, base_env=env, ignore_env=self._registry.daemon.ignore_env)
        for problem in configured.problems:
            self._log.warning("project.problem", dir=project.workspace, problem=str(problem))
        return _of_project(server, project, name)

    def _tell(self, place: _Place, project: Project, found: Mapping[str, State]) -> None:
        """Tell what is another state than it was, and what is wrong with the files."""
        before = place.project
        for state, event in _EVENTS.items():
            names = [
                name
                for name, now in found.items()
                if now == state
                and not _is_known(before, place.states, project.offers[name], now)
                and (state in WAITING or name in place.states)
            ]
            if names:
                hint = _remedy(project.workspace) if state in WAITING else None
                self._journal.add(event, dir=project.workspace, servers=names, hint=hint)
                self._log.info(event, dir=project.workspace, servers=", ".join(names), hint=hint)
        for problem in project.problems:
            if before is None or problem not in before.problems:
                self._log.warning("project.problem", dir=project.workspace, problem=str(problem))

    def _kept(self) -> dict[str, Kept]:
        """Return what is remembered: nothing where the file cannot be used."""
        try:
            found = kept.read(self._path)
        except ProjectsError as error:
            if self._trouble != error.message:
                self._trouble = error.message
                self._log.error("project.trust_lost", problem=error.message, hint=error.hint)
            return {}
        self._trouble = None
        return found

    def _trusted_projects(self) -> tuple[str, ...]:
        return self._registry.loaded.trust.trusted_projects

    def _forget(self, workspace: str) -> None:
        place = self._places.pop(workspace, None)
        if place is None:
            return
        if place.timer is not None:
            place.timer.cancel()
        if place.servers:
            self._apply()
        self._watch_soon()

    def _drop_one(self) -> bool:
        """Forget the workspace that has had no connection for longest; return whether one was."""
        unused = next((name for name, place in self._places.items() if not place.connections), None)
        if unused is None:
            return False
        self._forget(unused)
        return True

    def _watch_soon(self) -> None:
        """Watch the files of the workspaces that there are, if that is not due already."""
        is_needed = self._watched or any(place.has_sessions for place in self._places.values())
        if is_needed and self._watch_timer is None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._watch_timer = loop.call_later(WATCH_AFTER_S, self._watch_now)

    def _watch_now(self) -> None:
        self._watch_timer = None
        settings = self._registry.daemon
        used = [name for name, place in self._places.items() if place.has_sessions][-MOST_WATCHED:]
        if not (settings.watch and settings.projects):
            used = []
        paths = [os.path.join(workspace, name) for workspace in used for name in files.FILES]
        if self._watch_files((self._path, *paths) if paths else ()):
            self._look(used)  # what was changed before they were watched

    def _watch_files(self, wanted: tuple[str, ...]) -> bool:
        """Watch other files; return whether they are others."""
        if wanted == self._watched:
            return False
        if self._watch is not None:
            self._watch.close()
        self._watch = FileWatch(wanted, self.look) if wanted else None
        self._watched = wanted
        return True


def whole_name(name: str, workspace: str) -> str:
    """Return the name of a project's server that is unique in the daemon."""
    return f"{name}@{workspace}"


def _is_known(
    before: Project | None, states: Mapping[str, State], offer: Offer, now: State
) -> bool:
    """Tell whether a server had this content and this state already."""
    old = None if before is None else before.offers.get(offer.name)
    return old is not None and old.hash == offer.hash and states.get(offer.name) == now


def _waiting(project: Project, name: str) -> Server:
    """Return a server that is not run before a person trusts it, and says so."""
    offer, whole = project.offers[name], whole_name(name, project.workspace)
    failure = Failure(
        kind="denied",
        message=f"{name} of the project in {project.workspace} waits until a person trusts it",
        server=name,
        hint=_remedy(project.workspace),
        details={"reason": "project"},
    )
    server = Server(
        name=whole,
        configured=ServerEntry(name=whole, file=offer.file, line=offer.line),
        entry=Entry(name=whole, launch="", unavailable=failure),
        backend=None,
        cache_key="",
    )
    return _of_project(server, project, name)


def _of_project(server: Server, project: Project, name: str) -> Server:
    entry = msgspec.structs.replace(server.entry, workspace=project.workspace, local_name=name)
    return msgspec.structs.replace(server, entry=entry)


def _remedy(workspace: str) -> str:
    return f"mcpctl trust {shlex.quote(workspace)}"
