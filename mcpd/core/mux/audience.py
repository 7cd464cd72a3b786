"""What servers say unasked, to those whom it concerns and to nobody else."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.facts import Failure, ServerLogged
from mcpd.core.mcp.methods import LEVELS
from mcpd.core.mux import progress
from mcpd.core.mux.inflight import Pending
from mcpd.core.mux.listens import Listens
from mcpd.core.mux.lists import ListWaiter
from mcpd.core.mux.questions import Questions
from mcpd.core.mux.requests import Interpreted
from mcpd.core.mux.rounds import Rounds
from mcpd.core.mux.session import Session
from mcpd.core.mux.subscriptions import Topic
from mcpd.core.mux.tables import Tables
from mcpd.core.mux.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

_LOG_LENGTH: Final = 2000  # characters of a log message for no session that are kept


class Hearers:
    """Passes on list changes, resource updates, log messages and questions."""

    def __init__(
        self, tables: Tables, questions: Questions, rounds: Rounds, listens: Listens
    ) -> None:
        self._tables = tables
        self._questions = questions
        self._rounds = rounds
        self._listens = listens

    def heard_lists(self, upstream: Upstream) -> None:
        """Remember what a process listed: it stands for all processes of its launch."""
        tables = self._tables
        tables.remember_lists(upstream)
        for name in self._names_of(upstream):
            for kind in Kind:
                tables.aggregate.forget(name, kind)

    def heard_change(self, upstream: Upstream, kind: Kind, *, everybody: bool) -> None:
        """A list is another one; without ``everybody`` only the aggregate had none before."""
        tables = self._tables
        names = self._names_of(upstream)
        for session in tables.sessions.values():
            own = session.server is not None
            if (own and everybody and self._is_own(session, upstream)) or (
                not own
                and (everybody or kind in session.incomplete)
                and session.is_session
                and self._is_in_aggregate(session, upstream, names)
            ):
                session.incomplete.discard(kind)
                self.tell_change(session, kind)

    def heard_ready(self, upstream: Upstream) -> None:
        """Read what sessions of the aggregate were answered without, to tell them of it.

        Of a process only the tools are read at its start.
        """
        tables = self._tables
        names = self._names_of(upstream)
        missing = {
            kind
            for session in tables.sessions.values()
            for kind in session.incomplete
            if self._is_in_aggregate(session, upstream, names)
        }
        for kind in Kind:
            if kind in missing and upstream.catalog.get(kind) is None:
                upstream.lists.read(kind, self._announcer(upstream, kind))

    def _announcer(self, upstream: Upstream, kind: Kind) -> ListWaiter:
        def read(listing: Listing | None, failure: Failure | None) -> None:
            if listing is not None and len(listing):
                self.heard_change(upstream, kind, everybody=False)

        return read

    def tell_change(self, session: Session, kind: Kind) -> None:
        """Send one notice, and one to each listen, not more than one each quarter of a second."""
        if session.is_initialized:
            tables, method = self._tables, kind.notification
            session.changes.tell(tables.fx, method, lambda: tables.notify(session, method, None))
        self._listens.tell_change(session, kind)

    def heard_update(self, upstream: Upstream, topic: Topic, params: Raw) -> None:
        """An update goes to the subscribers of a resource or a parent of it, or of a task."""
        for who in upstream.subscriptions.subscribers(topic):
            ident, key = who if isinstance(who, tuple) else (who, None)
            session = self._session(ident)
            if session is not None and key is not None:
                self._listens.tell_update(session, key, topic, params)
            elif session is not None:
                self._tables.notify(session, "notifications/resources/updated", params)

    def heard_log(self, upstream: Upstream, params: Raw) -> None:
        """A log message goes to the one session in flight, or if none is to all that want it.

        A moment after a call that is its session alone: the message may tell of the call.
        A modern server, and for a modern client, logs for requests alone.
        """
        found = envelope.params_of(params)
        level = (envelope.text(found.level) if found is not None else None) or "info"
        flying = upstream.requests.owners_in_flight()
        given_up = upstream.turns.possible() if len(flying) < 2 else ()
        owners = flying | {pending.owner for pending in given_up}
        lately = set() if owners else upstream.requests.lately()
        is_for_none = len(owners) > 1 or len(lately) > 1 or (not owners and upstream.is_modern)
        if is_for_none or (lately and not any(map(self._hears_logs, lately))):
            text = upstream.entry.redactor.excerpt(params, _LOG_LENGTH)
            self._tables.fx.tell(ServerLogged(upstream.entry.name, level, text))
            return
        for ident in owners or lately or sorted(upstream.requests.users):
            session = self._session(ident)
            if session is not None and self._wants_log(session, upstream, level, bool(owners)):
                name = session.uses(upstream)
                is_named = session.server is None and name is not None
                told = _from(name, params) if is_named and name is not None else params
                self._tables.notify_modern(session, "notifications/message", told)

    def _hears_logs(self, ident: int) -> bool:
        """Tell whether a session hears of what is logged for no request."""
        session = self._session(SessionId(ident))
        return session is not None and session.is_initialized

    def _wants_log(
        self, session: Session, upstream: Upstream, level: str, is_in_flight: bool
    ) -> bool:
        """Tell whether a message is for a session, of whatever is in flight for it, if anything."""
        if not is_in_flight:
            return session.is_initialized and session.wants_log(level)
        flying = upstream.requests.flying_of(session.id)
        if session.is_initialized and any(p.asker is not None and not p.is_modern for p in flying):
            is_asked = session.level is not None or not upstream.is_modern
            return is_asked and session.wants_log(level)
        is_parked = self._questions.parking.is_parked
        return any(
            pending.is_modern
            and pending.asker is not None
            and pending.asker.level is not None
            and _reaches(level, pending.asker.level)
            and not is_parked(pending)  # its request is answered
            for pending in flying
        )

    def heard_question(self, upstream: Upstream, ident: bytes, method: str, params: Raw) -> None:
        """A question goes to the only session it can be for."""
        self._questions.ask(upstream, ident, method, params)

    def heard_answer(
        self, upstream: Upstream, pending: Pending, result: Raw | None, error: Raw | None
    ) -> Interpreted | None:
        """Say what an answer means to its client; ``None`` when that is asked something first."""
        return self._rounds.answered(upstream, pending, result, error)

    def heard_completion(self, upstream: Upstream, params: Raw) -> None:
        """What a session was to do elsewhere is done."""
        self._questions.visits.completed(upstream, params)

    def heard_withdrawal(self, upstream: Upstream, ident: bytes) -> None:
        """The server does not want to know any more."""
        self._questions.withdraw(upstream, ident)

    def heard_end(self, upstream: Upstream) -> None:
        """The process is gone, with whatever it wanted to know."""
        self._questions.server_gone(upstream)

    def _session(self, ident: int) -> Session | None:
        return self._tables.sessions.get(SessionId(ident))

    def _names_of(self, upstream: Upstream) -> list[str]:
        launch = upstream.entry.launch
        return [e.name for e in self._tables.entries.values() if e.launch == launch]

    def _is_own(self, session: Session, upstream: Upstream) -> bool:
        """Tell whether a process is the one that a session's endpoint stands for."""
        used = session.upstreams.get(session.server or "")
        if used is not None:
            return used is upstream
        entry = self._tables.entries.get(session.server or "")
        return entry is not None and upstream.slot == entry.launch

    def _is_in_aggregate(self, session: Session, upstream: Upstream, names: list[str]) -> bool:
        own = [session.upstreams[name] for name in names if name in session.upstreams]
        if own and upstream not in own:
            return False  # it has a process of its own, and this is another
        entries = self._tables.entries
        return any(entries[name].is_listed for name in names)


def _reaches(level: str, least: str) -> bool:
    return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(least)


def _from(server: str, params: Raw) -> bytes:
    members = envelope.object_of(params) or {}
    logger = envelope.text(members.get("logger", UNSET))
    name = f"{server}/{logger}" if logger else server
    return progress.with_member(params, "logger", envelope.quote(name))
