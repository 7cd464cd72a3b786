"""A change of the configured servers: sessions move to other processes and learn of other lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcpd.core.catalog.model import Kind
from mcpd.core.downstream.admission import Admission
from mcpd.core.downstream.client_subscriptions import ClientSubscriptions
from mcpd.core.downstream.session_settings import SessionSettings
from mcpd.core.interface.entries import Entry, Policy
from mcpd.core.mux.notifier import Notifier
from mcpd.core.questions.approvals import Approvals
from mcpd.core.state.session import Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
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
        approvals: Approvals,
    ) -> None:
        self._state = state
        self._slots = slots
        self._admission = admission
        self._settings = settings
        self._listens = listens
        self._notifier = notifier
        self._approvals = approvals

    def apply(self, entries: Iterable[Entry], policy: Policy) -> None:
        """Take over all entries, and what the configuration says of calls.

        Processes of entries that have changed or are gone are retired.
        """
        state = self._state
        scopes = {each.id: state.scope_of(each.principal) for each in state.sessions.values()}
        before, state.entries = state.entries, {entry.name: entry for entry in entries}
        state.policy = policy
        state.configure_aggregate()
        for name in list(state.held):
            old, new = before.get(name), state.entries.get(name)
            if old is None or new is None or old.launch != new.launch:
                state.held.pop(name, None)
        launches = {e.launch: e for e in reversed([*state.entries.values()]) if not e.unavailable}
        gone = [u for u in state.upstreams.values() if not state.is_wanted(u)]
        for upstream in state.upstreams.values():
            upstream.calls.configure(launches.get(upstream.entry.launch, upstream.entry))
        for session in list(state.sessions.values()):
            self._move(session, gone)
        self._listens.configured(gone)
        gone += [u for u in state.upstreams.values() if u not in gone and state.is_abandoned(u)]
        for upstream in gone:
            for leg in self._slots.retire(upstream, "its entry was changed or removed"):
                self._admission.send(leg)
        self._approvals.configured()
        self._tell_changes(before, scopes)
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

    def _tell_changes(self, before: dict[str, Entry], scopes: Mapping[SessionId, Scope]) -> None:
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
        changed = {
            name
            for name in {*before, *state.entries}
            if _as_listed(before.get(name)) != _as_listed(state.entries.get(name))
        }
        if not changed and _listed(before) == _listed(state.entries):
            return
        # a filter is of tools; another process, or another order, may be of everything
        after = state.entries
        others = {name for name in changed if _launch(before, name) != _launch(after, name)}
        is_other = bool(others) or _listed(before) != _listed(after)
        for session in state.sessions.values():
            name = session.server
            if not session.is_session or (name is not None and name not in changed):
                continue
            if session in rescoped:
                continue
            if not any(map(state.scope_of(session.principal).has, changed or state.entries)):
                continue
            for kind in NOTICES if is_other and (name is None or name in others) else _FILTERED:
                if name is None or state.may_have_listed(before.get(name), kind):
                    self._notifier.tell_change(session, kind)


def ignore_start(failure: object) -> None:
    """Ignore that a process is ready which a subscription needs."""


def ignore_outcome(error: object, failure: object) -> None:
    """Ignore the outcome of a subscription that is renewed."""


def _listed(entries: dict[str, Entry]) -> list[str]:
    return [name for name, entry in entries.items() if _as_listed(entry) is not None]


def _launch(entries: dict[str, Entry], name: str) -> str | None:
    entry = entries.get(name)
    return entry.launch if entry is not None and _as_listed(entry) is not None else None


def _as_listed(entry: Entry | None) -> object:
    if entry is None or entry.unavailable is not None or not entry.is_listed:
        return None
    return (entry.launch, entry.filter)
