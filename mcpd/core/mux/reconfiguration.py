"""A change of the configured servers: sessions move to other processes and learn of other lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcpd.core.approvals.approvals import Approvals
from mcpd.core.catalog.model import Kind
from mcpd.core.downstream.admission import Admission
from mcpd.core.downstream.client_subscriptions import ClientSubscriptions
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.interface.entries import Entry, Policy
from mcpd.core.mux.notifier import Notifier
from mcpd.core.mux.pinning import Pinning
from mcpd.core.state.session import Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.state.views import Views
from mcpd.core.upstream.upstream import Upstream
from mcpd.ids import SessionId
from mcpd.principal import Scope

NOTICES = (Kind.TOOLS, Kind.PROMPTS, Kind.RESOURCES)  # templates share theirs with resources
_FILTERED = (Kind.TOOLS,)


class Reconfiguration:
    """Applies the entries of a configuration that has been read."""

    def __init__(
        self,
        state: MuxState,
        slots: Slots,
        *,
        admission: Admission,
        settings: SessionSettings,
        listens: ClientSubscriptions,
        notifier: Notifier,
        pinning: Pinning,
        approvals: Approvals,
    ) -> None:
        self._state = state
        self._slots = slots
        self._admission = admission
        self._settings = settings
        self._listens = listens
        self._notifier = notifier
        self._pinning = pinning
        self._approvals = approvals

    def apply(self, entries: Iterable[Entry], policy: Policy) -> None:
        """Take over all entries, and what the configuration says of calls.

        Processes of entries that have changed or are gone are retired.
        """
        state = self._state
        scopes = {each.id: state.scope_of(each.principal) for each in state.sessions.values()}
        before, views = state.entries, state.views
        state.policy = policy
        state.configure(entries)
        for name in list(state.held):
            old, new = before.get(name), state.entries.get(name)
            if old is None or new is None or old.launch != new.launch:
                state.held.pop(name, None)
        launches = {e.launch: e for e in reversed([*state.entries.values()]) if not e.unavailable}
        gone = [u for u in state.upstreams.values() if not state.is_wanted(u)]
        for upstream in state.upstreams.values():
            upstream.calls.entry = launches.get(upstream.entry.launch, upstream.entry)
        self._pinning.configured(state.entries.values())
        for upstream in list(state.upstreams.values()):
            self._admission.reconsider(upstream)
            upstream.calls.configure(upstream.entry)
        for session in list(state.sessions.values()):
            self._move(session, gone)
        self._listens.configured(gone)
        gone += [u for u in state.upstreams.values() if u not in gone and state.is_abandoned(u)]
        for upstream in gone:
            for leg in self._slots.retire(upstream, "its entry was changed or removed"):
                self._admission.send(leg)
        self._tell_changes(before, views, scopes)
        self._approvals.configured()
        self._slots.forget_strangers()

    def _move(self, session: Session, gone: list[Upstream]) -> None:
        """Move a session from processes that are retired to those that take their place."""
        for name, upstream in list(session.upstreams.items()):
            entry = self._state.entries.get(name)
            if upstream not in gone and (
                entry is None
                or entry.unavailable is not None
                or self._state.is_right(upstream, session, entry)
            ):
                continue
            wanted = [uri for uri, server in session.subscribed.items() if server == name]
            if entry is None or entry.unavailable is not None:
                session.upstreams.pop(name)
                upstream.calls.usage.users.discard(session.id)
                upstream.subscriptions.leave(session.id, is_up=False)
                continue
            new = self._slots.upstream_for(session, entry)
            if session.uses(upstream) is None:
                upstream.calls.usage.users.discard(session.id)
                is_up = upstream.is_ready and upstream not in gone
                upstream.subscriptions.leave(session.id, is_up=is_up)
                upstream.calls.usage.mark_idle()
            for uri in wanted:
                new.subscriptions.add(uri, session.id, ignore_outcome, is_up=new.is_ready)
            if wanted and name not in self._state.held:
                new.calls.start_wait.when_ready(ignore_start)
            if session.levels():  # of modern requests too, which move with it
                self._settings.apply_levels(new)

    def _tell_changes(
        self, before: dict[str, Entry], views: Views, scopes: Mapping[SessionId, Scope]
    ) -> None:
        """Notify sessions of the lists that a filter, a profile or another server has changed."""
        state = self._state
        rescoped = [
            session
            for session in state.sessions.values()
            if session.is_session and scopes[session.id] != state.scope_of(session.principal)
        ]
        for session in rescoped:
            for kind in NOTICES:
                if session.server is None or state.may_have_listed(
                    before.get(session.server), kind
                ):
                    self._notifier.tell_change(session, kind)
        if not before:
            return
        of_servers = _Change(before, state.entries)
        of_views: dict[str | None, _Change] = {}
        for session in state.sessions.values():
            if not session.is_session:
                continue
            name = session.server
            if session in rescoped:
                continue
            if name is not None:
                kinds = of_servers.kinds_of(name)
            else:
                workspace = views.key(session.workspace) or state.views.key(session.workspace)
                if workspace not in of_views:
                    of_views[workspace] = _Change(views.of(workspace), state.views.of(workspace))
                kinds = of_views[workspace].kinds_for(state.scope_of(session.principal))
            for kind in kinds:
                if name is None or state.may_have_listed(before.get(name), kind):
                    self._notifier.tell_change(session, kind)


class _Change:
    """What of the lists is different between the entries that somebody knew and knows."""

    def __init__(self, before: Mapping[str, Entry], after: Mapping[str, Entry]) -> None:
        self._after = after
        self._changed = {
            name
            for name in {*before, *after}
            if _as_listed(before.get(name)) != _as_listed(after.get(name))
        }
        # a filter is of tools; another process, or another order, may be of everything
        self._others = {n for n in self._changed if _launch(before, n) != _launch(after, n)}
        self._is_other_order = _listed(before) != _listed(after)

    def kinds_of(self, server: str) -> tuple[Kind, ...]:
        """Return which lists of a server may be others."""
        if server not in self._changed:
            return ()
        return NOTICES if server in self._others else _FILTERED

    def kinds_for(self, scope: Scope) -> tuple[Kind, ...]:
        """Return which lists of the aggregate may be others for a scope."""
        if not (self._changed or self._is_other_order):
            return ()
        if not any(map(scope.has, self._changed or self._after)):
            return ()
        return NOTICES if self._others or self._is_other_order else _FILTERED


def ignore_start(failure: object) -> None:
    """Ignore that a process is ready which a subscription needs."""


def ignore_outcome(error: object, failure: object) -> None:
    """Ignore the outcome of a subscription that is renewed."""


def _listed(entries: Mapping[str, Entry]) -> list[str]:
    return [name for name, entry in entries.items() if _as_listed(entry) is not None]


def _launch(entries: Mapping[str, Entry], name: str) -> str | None:
    entry = entries.get(name)
    return entry.launch if entry is not None and _as_listed(entry) is not None else None


def _as_listed(entry: Entry | None) -> object:
    if entry is None or entry.unavailable is not None or not entry.is_listed:
        return None
    return (entry.launch, entry.filter)
