"""Who there is: entries, sessions, upstreams, and the ways from one to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from mcpd.core.catalog.model import Catalog, Kind, Listing
from mcpd.core.facts import Failure, FrameRejected, SessionNamed, SessionOpened
from mcpd.core.mcp import codes
from mcpd.core.mcp.asker import Asker
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mux import ourselves
from mcpd.core.mux.aggregate import Aggregate
from mcpd.core.mux.commands import CloseSlot, OpenSlot, ToSession
from mcpd.core.mux.effects import Effects, Timer
from mcpd.core.mux.entries import Entry, Sharing
from mcpd.core.mux.failures import no_room, with_details
from mcpd.core.mux.inflight import Outcome, Pending
from mcpd.core.mux.lists import ListWaiter
from mcpd.core.mux.requests import Waiter
from mcpd.core.mux.session import Owed, Session
from mcpd.core.mux.upstream import Audience, Known, Phase, Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId, SlotId

STRANGERS = 8
"""Of so many launches that nothing is started like any more, it is still known what they said."""

CONTROL = "control"
"""The instance of a server that is not shared which control calls have for themselves."""


_KEY_KINDS = {
    Sharing.SHARED: (None,),
    Sharing.SESSION: ("session", CONTROL),
    Sharing.WORKSPACE: ("workspace", CONTROL),
}
"""What the keys of an entry's places begin with."""


_KINDS_OF_CODES = {
    codes.METHOD_NOT_FOUND: "unknown_method",
    codes.INVALID_PARAMS: "invalid_params",
}


class Waiting(Protocol):
    """A request, or a listen, that waits for something before it goes on."""

    leave: Callable[[], object] | None
    """Takes it out of where it waits; called when it is over."""


class Tables:
    """The state that all parts of the mux look at."""

    def __init__(self, effects: Effects) -> None:
        self.fx = effects
        self.entries: dict[str, Entry] = {}
        self.held: dict[str, Failure] = {}
        self.sessions: dict[SessionId, Session] = {}
        self.upstreams: dict[SlotId, Upstream] = {}
        self.retiring: dict[SlotId, tuple[Upstream, Timer]] = {}
        """Places that nobody comes to any more, while what is in flight there has its time."""
        self.keys: dict[SlotId, str | None] = {}
        self.memory: dict[str, Known] = {}
        """What the last process of a launch said, and what was listed last."""
        self.past_calls: dict[str, tuple[int, int]] = {}
        """Calls and errors of processes whose places are forgotten, by server."""
        self.aggregate = Aggregate(self.catalog_of)
        self.audience: Audience

    # -- servers --------------------------------------------------------------------------------

    def entry(self, name: str) -> Entry | Failure:
        """Return an entry that can be used, or why there is none."""
        entry = self.entries.get(name)
        if entry is None:
            return self.not_found(name)
        if entry.unavailable is not None:
            return entry.unavailable
        return self.held.get(name) or entry

    def not_found(self, name: str) -> Failure:
        """Say that no server has this name, and which have one like it."""
        near = self.fx.suggest(name, self.entries)
        hint = f"did you mean {' or '.join(near)}?" if near else "mcpctl list shows the servers"
        return Failure(
            "server_not_found", f"there is no server {name!r}", name, False, hint, {"near": near}
        )

    def catalog_of(self, name: str) -> Catalog:
        """Return what a server last listed, running or not."""
        entry = self.entries.get(name)
        if entry is None:
            return Catalog()
        shared = self.upstreams.get(SlotId(entry.launch))
        if shared is not None:
            return shared.catalog
        known = self.memory.get(entry.launch)
        return entry.catalog if known is None else known.shown

    def introduction_of(self, name: str) -> Introduction | None:
        """Return what a server last said of itself."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        shared = self.upstreams.get(SlotId(entry.launch))
        if shared is not None:
            return shared.introduction
        known = self.memory.get(entry.launch)
        if known is not None:
            return known.introduction
        said = (own.introduction for own in self.upstreams_of(name))  # nobody shares these
        return next((each for each in said if each is not None), entry.introduction)

    def upstreams_of(self, name: str) -> list[Upstream]:
        """Return the processes, or places for one, that a server has."""
        entry = self.entries.get(name)
        if entry is None:
            return []
        prefix = entry.launch + "@"
        return [
            upstream
            for slot, upstream in self.upstreams.items()
            if slot == entry.launch or slot.startswith(prefix)
        ]

    # -- from a session to its process -----------------------------------------------------------

    def upstream_for(self, session: Session, entry: Entry) -> Upstream:
        """Return the process that serves a session's requests to a server; it keeps it alive."""
        upstream = session.upstreams.get(entry.name)
        if upstream is not None and self.is_right(upstream, session, entry):
            return upstream
        key = _key(session, entry)
        before = upstream.slot if upstream is not None else None
        cwd = session.workspace if _is_of_workspace(entry) else None
        client = session.speaker if entry.sharing is Sharing.SESSION else None
        found = self._open(entry, key, cwd, after=before, client=client)
        session.upstreams[entry.name] = found
        found.requests.users.add(session.id)
        found.requests.mark_busy()
        return found

    def is_right(self, upstream: Upstream, session: Session, entry: Entry) -> bool:
        """Tell whether a session's process is still the one that its entry asks for."""
        if upstream.entry.launch != entry.launch:
            return False
        key = self.keys.get(upstream.slot)
        return key is None if entry.sharing is Sharing.SHARED else key == _key(session, entry)

    def is_wanted(self, upstream: Upstream) -> bool:
        """Tell whether an entry asks for processes of this launch that are shared like this."""
        key = self.keys.get(upstream.slot)
        kind = None if key is None else key.partition(":")[0]
        return any(
            entry.launch == upstream.entry.launch
            and entry.unavailable is None
            and kind in _KEY_KINDS[entry.sharing]
            for entry in self.entries.values()
        )

    def control_upstream(self, entry: Entry, workspace: str | None = None) -> Upstream:
        """Return the process that serves control calls to a server, made from a ``workspace``."""
        key = _control_key(entry, workspace)
        is_of_workspace = key is not None and key != CONTROL
        client = None if key is None else self._nobody
        return self._open(entry, key, workspace if is_of_workspace else None, client=client)

    def _nobody(self) -> Asker:
        """Return who makes control calls: the process is its own, and nobody can be asked."""
        return ourselves.calling_asker(self.fx.settings.version)

    def lister(self, session: Session, name: str) -> Upstream | None:
        """Return the process whose lists of a server a session sees; none is made for that."""
        own = session.upstreams.get(name)
        entry = self.entries.get(name)
        if own is not None or entry is None:
            return own
        return self.upstreams.get(_slot(entry, _control_key(entry, session.workspace)))

    def _open(
        self,
        entry: Entry,
        key: str | None,
        cwd: str | None,
        *,
        after: SlotId | None = None,
        client: Callable[[], Asker] | None = None,
    ) -> Upstream:
        slot = _slot(entry, key)
        upstream = self.upstreams.get(slot) or self._reclaim(slot, entry)
        if upstream is None:
            upstream = Upstream(self.fx, slot, entry, self.audience, client)
            upstream.recall(self._known(entry))
            after = after or self._retiring_place(entry.name, key)
            self.upstreams[slot] = upstream
            self.keys[slot] = key
            self.fx.emit(OpenSlot(slot, entry.name, key, cwd, after))
        return upstream

    def _retiring_place(self, name: str, key: str | None) -> SlotId | None:
        """Return the newest place that a server's new one takes over from."""
        for slot, (upstream, _) in reversed(self.retiring.items()):
            if upstream.entry.name == name and self.keys.get(slot) == key:
                return slot
        return None

    def leave(self, session: Session, name: str) -> None:
        """A session does not use a server any more."""
        upstream = session.upstreams.pop(name, None)
        if upstream is None:
            return
        if session.uses(upstream) is not None:
            return
        upstream.requests.users.discard(session.id)
        upstream.subscriptions.leave(session.id, is_up=upstream.phase is Phase.READY)
        if self._is_private(upstream):
            self.close(upstream, "its session ended")
        else:
            upstream.requests.mark_idle()
            self.tidy(upstream)

    def tidy(self, upstream: Upstream) -> None:
        """Forget a workspace's place in which nothing runs and which nobody uses."""
        key = self.keys.get(upstream.slot)
        is_of_workspace = key is not None and key.startswith(("workspace:", f"{CONTROL}:"))
        requests = upstream.requests
        if (
            is_of_workspace
            and upstream.phase is Phase.DOWN
            and not (requests.users or requests.load() or self.has_left(upstream))
        ):
            self.close(upstream, "its workspace is not used any more")

    def is_abandoned(self, upstream: Upstream) -> bool:
        """Tell whether it was the process of a session that has another one now, or none."""
        return self._is_private(upstream) and not upstream.requests.users

    def _is_private(self, upstream: Upstream) -> bool:
        key = self.keys.get(upstream.slot)
        return key is not None and key.startswith("session:")

    def retire(self, upstream: Upstream, reason: str) -> None:
        """Close a place once what is in flight there is answered, or has had its time.

        What has not been sent goes to the process that takes its place.
        """
        slot = upstream.slot
        if self.upstreams.pop(slot, None) is None:
            return
        self._remember(upstream)
        timer = self.fx.after(upstream.entry.stop_grace, lambda: self.close(upstream, reason))
        self.retiring[slot] = (upstream, timer)
        name = upstream.entry.name
        failure = Failure("server_stopped", f"{name}: {reason}", name, True)
        released = upstream.requests.release(failure, lambda: self.close(upstream, reason))
        for pending in released:
            self.resubmit(pending)

    def resubmit(self, pending: Pending) -> None:
        """Send a request to whatever process its server has now."""
        session = self.sessions.get(SessionId(pending.owner))
        if session is None or pending.entry is None or pending.is_over:
            return
        entry = self.entry(pending.entry.name)
        if isinstance(entry, Failure):
            pending.is_over = True
            pending.done(pending, None, None, entry)
            return
        pending.entry = entry
        if pending.asker is None:  # a control call
            self.control_upstream(entry, session.workspace).requests.submit(pending)
            return
        found = self.upstream_for(session, entry)
        level = pending.asker.level if pending.is_modern else None
        if level is None:
            found.requests.submit(pending)
            return
        owed = session.owed.get(pending.key)

        def leveled(_: object) -> None:
            if owed is not None:
                owed.leave = None
            if self.has_left(found) or isinstance(self.entry(entry.name), Failure):
                self.resubmit(pending)
            elif not pending.is_over:
                found.requests.submit(pending)

        if owed is not None:
            owed.leave = lambda: found.wait_for_no_level(leveled)
        found.log_at_least(level, leveled)

    def close(self, upstream: Upstream, reason: str) -> None:
        """Forget a place for a process; what runs there is stopped."""
        self._remember(upstream)
        slot = upstream.slot
        retiring = self.retiring.pop(slot, None)
        if retiring is not None:
            retiring[1].cancel()
            upstream.requests.reclaim()
        self.upstreams.pop(slot, None)
        self.keys.pop(slot, None)
        name = upstream.entry.name
        failure = Failure("server_stopped", f"{name}: {reason}", name, True)
        self.fx.emit(CloseSlot(slot, reason))  # first: who is let down may open it anew
        upstream.down(failure, is_planned=True, comes_back=False)
        self.forget_strangers()

    def forget_strangers(self) -> None:
        """Forget what launches said that no entry has and no place is of, and counts of no server.

        Ad-hoc servers and changed entries come and go for weeks, each with a catalog. The last few
        are kept: an entry may be back in a moment.
        """
        launches = {entry.launch for entry in self.entries.values()}
        launches.update(upstream.entry.launch for upstream in self.places())
        for launch in [each for each in self.memory if each not in launches][:-STRANGERS]:
            del self.memory[launch]
        for name in [each for each in self.past_calls if each not in self.entries][:-STRANGERS]:
            del self.past_calls[name]

    def has_left(self, upstream: Upstream) -> bool:
        """Tell whether another place has taken over from this one, or none."""
        return self.upstreams.get(upstream.slot) is not upstream

    def at(self, slot: SlotId) -> Upstream | None:
        """Return who speaks from a place, though it may be about to close."""
        found = self.upstreams.get(slot)
        if found is None and slot in self.retiring:
            found = self.retiring[slot][0]
        return found

    def places(self) -> list[Upstream]:
        """Return all places, those about to close included."""
        return [*self.upstreams.values(), *(upstream for upstream, _ in self.retiring.values())]

    def _reclaim(self, slot: SlotId, entry: Entry) -> Upstream | None:
        """Take back a place that was about to close: its entry is what it was again."""
        retiring = self.retiring.pop(slot, None)
        if retiring is None:
            return None
        upstream, timer = retiring
        timer.cancel()
        upstream.requests.reclaim()
        upstream.requests.configure(entry)
        self.upstreams[slot] = upstream
        self.fx.emit(OpenSlot(slot, entry.name, self.keys.get(slot), None, None))
        return upstream

    def recall_lists(self, upstream: Upstream) -> None:
        """Let a process that is one client's alone begin with lists that hold for that client."""
        upstream.recall_lists(self._known(upstream.entry))

    def _known(self, entry: Entry) -> Known:
        """Return what is known of a launch, from its last process or from the disk."""
        return self.memory.get(entry.launch) or Known(
            entry.introduction, entry.catalog, entry.verdict, entry.has_asked, entry.capabilities
        )

    def remember_lists(self, upstream: Upstream) -> None:
        """Keep what a process said and listed: it stands for all processes of its launch.

        It may have read fewer lists than others before it: theirs stay known.
        """
        known = upstream.known().after(self._known(upstream.entry))
        self.memory.pop(upstream.entry.launch, None)  # the newest is the last
        self.memory[upstream.entry.launch] = known

    def _remember(self, upstream: Upstream) -> None:
        name = upstream.entry.name
        if upstream.introduction is not None:
            self.remember_lists(upstream)
        calls, errors = upstream.requests.take_counts()
        past = self.past_calls.get(name, (0, 0))
        self.past_calls[name] = (past[0] + calls, past[1] + errors)

    # -- waiting ---------------------------------------------------------------------------------

    def when_ready(self, who: Waiting, upstream: Upstream, act: Waiter) -> None:
        """Go on with a request once a process is ready, or will not be, unless it is over."""

        def ready(failure: Failure | None) -> None:
            who.leave = None
            act(failure)

        who.leave = lambda: upstream.requests.wait_no_more(ready)
        upstream.requests.when_ready(ready)

    def when_listed(self, who: Waiting, upstream: Upstream, kind: Kind, act: ListWaiter) -> None:
        """Go on with a request once a process has listed, unless it is over."""

        def listed(listing: Listing | None, failure: Failure | None) -> None:
            who.leave = None
            act(listing, failure)

        who.leave = lambda: upstream.lists.wait_no_more(kind, listed)
        upstream.lists.listing(kind, listed)

    # -- answers --------------------------------------------------------------------------------

    def forget(self, session: Session, owed: Owed) -> None:
        """A request is over and gets no answer, or another one than usual."""
        session.forget(owed)

    def drop(self, session: Session, owed: Owed) -> None:
        """A request was given up by its client: it gets no answer."""
        self.forget(session, owed)
        if owed.batch is not None:
            owed.batch.settle(None)

    def reply(self, session: Session, owed: Owed, result: Raw | bytes) -> None:
        """Answer a request with a result."""
        self.forget(session, owed)
        self._send(session, owed, envelope.result(owed.ident, result))

    def pass_error(self, session: Session, owed: Owed, error: Raw | bytes) -> None:
        """Answer a request with a server's own error, untouched."""
        self.forget(session, owed)
        self._send(session, owed, envelope.error(owed.ident, error))

    def outcome(self, session: Session, owed: Owed) -> Outcome:
        """Return what answers a session's request with what came of the one sent on for it."""

        def done(
            _: Pending,
            result: Raw | bytes | None,
            error: Raw | bytes | None,
            failure: Failure | None,
        ) -> None:
            if not session.forget(owed):
                return
            if result is not None and owed.batch is None:
                line = envelope.result_parts(owed.ident, result)
                self.fx.commands.append(ToSession(session.id, line))
            elif result is not None:
                self._send(session, owed, envelope.result(owed.ident, result))
            elif error is not None:
                self._send(session, owed, envelope.error(owed.ident, error))
            elif failure is not None:
                wrong = envelope.error(owed.ident, codes.error_object(failure))
                self._send(session, owed, wrong)

        return done

    def _send(self, session: Session, owed: Owed, line: bytes) -> None:
        if owed.batch is None:
            self.fx.commands.append(ToSession(session.id, line))
            return
        if not owed.batch.has_room(line):
            failure = with_details(no_room(session.share, len(line)), outcome_unknown=True)
            line = envelope.error(owed.ident, codes.error_object(failure))
        owed.batch.settle(line)

    def refuse(
        self, session: Session, owed: Owed, failure: Failure, code: int | None = None
    ) -> None:
        """Answer a request with an error of ours."""
        self.pass_error(session, owed, codes.error_object(failure, code))

    def reject(self, session: Session, owed: Owed, code: int, why: str) -> None:
        """Answer a request that its client should not have sent like this."""
        self.fx.tell(FrameRejected(session.id, why))
        kind = _KINDS_OF_CODES.get(code, "invalid_message")
        self.refuse(session, owed, Failure(kind, why), code)

    def open_session(self, session: Session) -> None:
        """The connection is a session from now on."""
        session.is_session = True
        self.fx.tell(SessionOpened(session.id, session.server, session.label))

    def introduce(self, session: Session, client: Asker) -> None:
        """Call a session what its client calls itself."""
        name = client.name
        if name is None:
            return
        session.client = name
        if not session.has_introduced_itself:
            session.has_introduced_itself = True
            self.fx.tell(SessionNamed(session.id, session.server, session.label or name))

    def notify(self, session: Session, method: str, params: Raw | bytes | None) -> None:
        """Send a session a notification, unless it has not said yet that it listens."""
        if session.is_initialized:
            self.notify_modern(session, method, params)

    def notify_modern(self, session: Session, method: str, params: Raw | bytes | None) -> None:
        """Send a client a notification that one of its requests has asked for."""
        line = envelope.notification(envelope.quote(method), params)
        self.fx.emit(ToSession(session.id, line, is_notification=True))


def _is_of_workspace(entry: Entry) -> bool:
    """Tell whether it matters to a server's processes in which workspace they are."""
    return entry.sharing is Sharing.WORKSPACE or entry.of_workspace


def _slot(entry: Entry, key: str | None) -> SlotId:
    return SlotId(entry.launch if key is None else f"{entry.launch}@{key}")


def _control_key(entry: Entry, workspace: str | None) -> str | None:
    """Return which of a server's places is for control calls that are made from a workspace."""
    if entry.sharing is Sharing.SHARED:
        return None
    if workspace is None or not _is_of_workspace(entry):
        return CONTROL
    return f"{CONTROL}:{workspace}"


def _key(session: Session, entry: Entry) -> str | None:
    """Return which of a server's places is a session's."""
    if entry.sharing is Sharing.SESSION:
        return f"session:{session.id}"
    if entry.sharing is Sharing.WORKSPACE:
        return f"workspace:{session.workspace or ''}"
    return None
