"""Slots for the processes of servers: which one a session uses, opened, retired and closed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import CloseSlot, OpenSlot
from mcpd.core.interface.entries import Entry, Sharing
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.state.session import Session
from mcpd.core.state.slot_keys import CONTROL, control_key, is_of_workspace, key_of, slot_of
from mcpd.core.state.state import MuxState
from mcpd.core.upstream import own_info
from mcpd.core.upstream.phase import Phase
from mcpd.core.upstream.upstream import Observer, Upstream
from mcpd.ids import SlotId

STRANGERS = 8
"""Removed servers whose catalog is still kept: an entry may be back in a moment."""


class Slots:
    """Opens slots for processes as sessions and control calls need them, and closes them."""

    def __init__(self, state: MuxState, observer: Observer) -> None:
        self._state = state
        self._observer = observer

    def upstream_for(self, session: Session, entry: Entry) -> Upstream:
        """Return the process that serves a session's requests to a server; it keeps it alive."""
        upstream = session.upstreams.get(entry.name)
        if upstream is not None and self._state.is_right(upstream, session, entry):
            return upstream
        key = key_of(session, entry)
        before = upstream.slot if upstream is not None else None
        cwd = session.workspace if is_of_workspace(entry) else None
        client = session.speaker if entry.sharing is Sharing.SESSION else None
        found = self._open(entry, key, cwd, after=before, client=client)
        session.upstreams[entry.name] = found
        found.calls.usage.users.add(session.id)
        found.calls.usage.mark_busy()
        return found

    def control_upstream(self, entry: Entry, workspace: str | None = None) -> Upstream:
        """Return the process that serves control calls to a server, made from a ``workspace``."""
        key = control_key(entry, workspace)
        is_of_workspace = key is not None and key != CONTROL
        client = None if key is None else self._nobody
        return self._open(entry, key, workspace if is_of_workspace else None, client=client)

    def _nobody(self) -> ClientInfo:
        """Return who makes control calls: the process is its own, and nobody can be asked."""
        return own_info.control_client_info(self._state.ctx.settings.version)

    def _open(
        self,
        entry: Entry,
        key: str | None,
        cwd: str | None,
        *,
        after: SlotId | None = None,
        client: Callable[[], ClientInfo] | None = None,
    ) -> Upstream:
        slot = slot_of(entry, key)
        upstream = self._state.upstreams.get(slot) or self._reclaim(slot, entry)
        if upstream is None:
            upstream = Upstream(
                self._state.ctx, slot, entry, self._observer, client, self._state.definitions
            )
            upstream.recall(self._state.known(entry))
            after = after or self._retiring_place(entry.name, key)
            self._state.upstreams[slot] = upstream
            self._state.keys[slot] = key
            self._state.ctx.emit(OpenSlot(slot, entry.name, key, cwd, after))
        return upstream

    def _retiring_place(self, name: str, key: str | None) -> SlotId | None:
        """Return the newest place that a server's new one takes over from."""
        for slot, (upstream, _) in reversed(self._state.retiring.items()):
            if upstream.entry.name == name and self._state.keys.get(slot) == key:
                return slot
        return None

    def leave(self, session: Session, name: str) -> None:
        """A session does not use a server any more."""
        upstream = session.upstreams.pop(name, None)
        if upstream is None:
            return
        if session.uses(upstream) is not None:
            return
        upstream.calls.usage.users.discard(session.id)
        upstream.subscriptions.leave(session.id, is_up=upstream.phase is Phase.READY)
        if self._state.is_private(upstream):
            self.close(upstream, "its session ended")
        else:
            upstream.calls.usage.mark_idle()
            self.tidy(upstream)

    def tidy(self, upstream: Upstream) -> None:
        """Forget a workspace's place in which nothing runs and which nobody uses."""
        key = self._state.keys.get(upstream.slot)
        is_of_workspace = key is not None and key.startswith(("workspace:", f"{CONTROL}:"))
        requests = upstream.calls
        if (
            is_of_workspace
            and upstream.phase is Phase.DOWN
            and not (requests.usage.users or requests.load() or self._state.has_left(upstream))
        ):
            self.close(upstream, "its workspace is not used any more")

    def retire(self, upstream: Upstream, reason: str) -> list[UpstreamRequest]:
        """Close a place once what is in flight there is answered, or has had its time.

        Return what has not been sent: it goes to the process that takes its place.
        """
        slot = upstream.slot
        if self._state.upstreams.pop(slot, None) is None:
            return []
        self._remember(upstream)
        close = partial(self.close, upstream, reason)
        timer = self._state.ctx.after(upstream.entry.stop_grace, close)
        self._state.retiring[slot] = (upstream, timer)
        name = upstream.entry.name
        failure = Failure("server_stopped", f"{name}: {reason}", name, True)
        return upstream.calls.release(failure, close)

    def close(self, upstream: Upstream, reason: str) -> None:
        """Forget a place for a process; what runs there is stopped."""
        self._remember(upstream)
        slot = upstream.slot
        retiring = self._state.retiring.pop(slot, None)
        if retiring is not None:
            retiring[1].cancel()
            upstream.calls.usage.reclaim()
        self._state.upstreams.pop(slot, None)
        self._state.keys.pop(slot, None)
        name = upstream.entry.name
        failure = Failure("server_stopped", f"{name}: {reason}", name, True)
        self._state.ctx.emit(
            CloseSlot(slot, reason)
        )  # first: a request that fails now may open it again
        upstream.down(failure, is_planned=True, comes_back=False)
        self.forget_strangers()

    def forget_strangers(self) -> None:
        """Forget what launches said that no entry has and no place is of, and counts of no server.

        Ad-hoc servers and changed entries come and go for weeks, each with a catalog. The last few
        are kept: an entry may be back in a moment.
        """
        launches = {entry.launch for entry in self._state.entries.values()}
        launches.update(upstream.entry.launch for upstream in self._state.all_upstreams())
        for launch in [each for each in self._state.memory if each not in launches][:-STRANGERS]:
            del self._state.memory[launch]
        for name in [each for each in self._state.past_calls if each not in self._state.entries][
            :-STRANGERS
        ]:
            del self._state.past_calls[name]

    def _reclaim(self, slot: SlotId, entry: Entry) -> Upstream | None:
        """Take back a place that was about to close: its entry is what it was again."""
        retiring = self._state.retiring.pop(slot, None)
        if retiring is None:
            return None
        upstream, timer = retiring
        timer.cancel()
        upstream.calls.usage.reclaim()
        upstream.calls.configure(entry)
        self._state.upstreams[slot] = upstream
        self._state.ctx.emit(OpenSlot(slot, entry.name, self._state.keys.get(slot), None, None))
        return upstream

    def _remember(self, upstream: Upstream) -> None:
        name = upstream.entry.name
        if upstream.introduction is not None:
            self._state.remember(upstream)
        calls, errors = upstream.calls.counts.take()
        past = self._state.past_calls.get(name, (0, 0))
        self._state.past_calls[name] = (past[0] + calls, past[1] + errors)
