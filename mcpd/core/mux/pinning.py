"""Definitions that a person approves, and rules that change: clients get what they may now."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mcpd.core.catalog.model import Kind
from mcpd.core.definitions.definitions import Definitions
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.interface.events import AcceptPins
from mcpd.core.mux.notifier import Notifier
from mcpd.core.state.judged import judged
from mcpd.core.state.state import MuxState


class Pinning:
    """Has clients get what they may of the definitions of servers, after that has changed."""

    def __init__(self, state: MuxState, notifier: Notifier) -> None:
        self._state = state
        self._notifier = notifier

    def accept(self, event: AcceptPins) -> None:
        """Approve what a person was shown, and answer the request."""
        session = self._state.sessions.get(event.session)
        request = None if session is None else session.requests.get(event.key)
        definitions = self._state.definitions_of(event.server)
        if definitions is None:
            failure = self._state.not_found(event.server)
            if event.server in self._state.entries:
                why = f"nothing of {event.server} is pinned"
                failure = Failure("unsupported", why, event.server, False, 'pin = "warn"')
            if request is not None:
                request.refuse(failure)
            return
        found = definitions.accept(event.items)
        if isinstance(found, Failure):
            if request is not None:
                request.refuse(found)
            return
        self.serve_again(definitions, found)
        if request is not None:
            items = [{"kind": kind, "name": name} for kind, name in sorted(found)]
            request.reply(msgspec.json.encode({"server": event.server, "accepted": items}))

    def configured(self, entries: Collection[Entry]) -> None:
        """Take the entries: what their rules say now holds for what was listed before."""
        changed = self._state.definitions.configure(entries)
        for entry in entries:
            self._state.recall(entry)
        for definitions in changed:
            self.serve_again(definitions, ())

    def serve_again(self, definitions: Definitions, fresh: Collection[tuple[str, str]]) -> None:
        """Give clients what they get now, and notify those whose lists differ."""
        state, launch = self._state, definitions.approved.launch
        shared = False
        for upstream in state.all_upstreams():
            if upstream.definitions is definitions:
                shared = shared or not upstream.is_private
                upstream.judge_again(fresh)
        known = state.memory.get(launch)
        if known is None or shared:
            return
        now = judged(definitions, known, fresh)
        if now == known:
            return
        state.memory[launch] = now
        names = [entry.name for entry in state.entries.values() if entry.launch == launch]
        for name in names:
            state.shown.forget(name)
        if now.introduction is not None:
            state.ctx.emit(now.kept(now.introduction, state.entries[definitions.approved.name]))
        for kind in Kind:
            if now.newest.get(kind) != known.newest.get(kind):
                self._tell(names, kind)

    def _tell(self, names: Collection[str], kind: Kind) -> None:
        for session in self._state.sessions.values():
            if not session.is_session:
                continue
            servers = self._state.servers_of(session) if session.server is None else ()
            if session.server in names or any(name in servers for name in names):
                self._notifier.tell_change(session, kind)
