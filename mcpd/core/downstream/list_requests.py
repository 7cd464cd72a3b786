"""Answers to list requests: from the catalogs, or once servers have listed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET

from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.downstream.gathering import Gathering
from mcpd.core.downstream.initialize import aggregate_info
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp import codes, modern
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import R, Waiting
from mcpd.core.upstream.lists import Lists
from mcpd.core.upstream.upstream import Upstream
from mcpd.ids import SlotId
from mcpd.principal import EVERYTHING

_KINDS: Final = {kind.value: kind for kind in Kind}
_NO_HINTS: Final = (0, "private")
_NO_CURSOR: Final = (b"null", b'""')  # what some clients write for the first page


class ListRequests:
    """Answers from the catalogs; servers that have not listed yet are asked, and waited for."""

    def __init__(self, state: MuxState, slots: Slots) -> None:
        self.slots = self._slots = slots
        self._state = state

    def answer(self, request: ClientRequest) -> None:
        """Answer a list request, with what is known or what a server says now."""
        kind = _KINDS[request.method.kind or ""]
        cursor, session = request.found.cursor, request.session
        if cursor is not UNSET and bytes(cursor) not in _NO_CURSOR:
            why = "there are no further pages: the first is the whole list"
            request.reject(codes.INVALID_PARAMS, why)
            return
        if session.server is None:
            self.gather(session, request, (kind,), self._reply_aggregate_list, is_fresh=True)
            return
        entry = self._state.entries.get(session.server)
        usable = self._state.entry(session.server)
        if entry is None or (isinstance(usable, Failure) and usable.kind != "server_stopped"):
            failure = usable if isinstance(usable, Failure) else None
            request.refuse(failure or self._state.not_found(session.server))
            return
        if not self.has(session.server, kind.capability):
            why = f"{session.server} has no {kind.capability}"
            request.reject(codes.METHOD_NOT_FOUND, why)
            return
        is_held = isinstance(usable, Failure)
        client = self._state.client_of(request.session, request)
        known = self._known(session, entry.name, kind, client, is_held=is_held)
        if known is not None:
            self._reply_known(request, entry, known, is_held=is_held)
        elif isinstance(usable, Failure):
            request.refuse(usable)
        else:
            self._ask(request, self._slots.upstream_for(session, usable), kind)

    def _ask(self, request: ClientRequest, upstream: Upstream, kind: Kind) -> None:
        """Answer a list request once a process has listed for this client."""
        lists = upstream.client_lists.of(self._state.client_of(request.session, request))
        listed = partial(self._listed, lists)
        refuse = partial(self._not_listed, upstream)
        Waiting(self._state, request, upstream, listed, self.answer, refuse).for_list(kind, lists)

    def _listed(self, lists: Lists, request: ClientRequest, upstream: Upstream) -> None:
        if upstream.client_lists.of(self._state.client_of(request.session, request)) is not lists:
            self.answer(request)  # only now it is known that it has others
            return
        kind = _KINDS[request.method.kind or ""]
        listing = lists.catalog.get(kind)
        if listing is None:  # it could not be read for this client
            listing = upstream.catalog.get(kind)
        entry = self._state.entries.get(request.session.server or "", upstream.entry)
        if listing is not None:
            self._reply_known(request, entry, listing, is_held=False)
        else:  # nor was it ever read for us
            request.session.incomplete.add(kind)
            self._reply_list(request, entry, kind, Listing.empty(kind), _NO_HINTS)

    def _not_listed(self, upstream: Upstream, request: ClientRequest, failure: Failure) -> None:
        """Answer with what was listed for us, if it is known, or with the failure."""
        kind = _KINDS[request.method.kind or ""]
        ours = None if upstream.is_private else upstream.catalog.get(kind)
        if ours is None:
            request.refuse(failure)
            return
        entry = self._state.entries.get(request.session.server or "", upstream.entry)
        request.session.incomplete.add(kind)
        self._reply_list(request, entry, kind, ours, _NO_HINTS)

    def _known(
        self, session: Session, server: str, kind: Kind, client: ClientInfo | None, *, is_held: bool
    ) -> Listing | None:
        """Return a list as far as it is known for a client.

        A server that ``is_held`` cannot be asked, so what it listed for others must do.
        """
        current = session.upstreams.get(server)
        known = None
        if current is not None:
            self._state.recall_lists(current)
            known = current.client_lists.catalog_for(client).get(kind)
            if current.is_private and not is_held:
                return known
        if known is None:
            known = self._state.catalog_for(server, client).get(kind)
        if known is None and is_held:
            known = self._state.catalog_of(server).get(kind)
        return known

    def _reply_known(
        self, request: ClientRequest, entry: Entry, known: Listing, *, is_held: bool
    ) -> None:
        """Answer with a list that is known, after reading it again if it may have changed."""
        kind, session = _KINDS[request.method.kind or ""], request.session
        upstream = self._state.lister(session, entry.name)
        client = self._state.client_of(session, request)
        lists = None if upstream is None else upstream.client_lists.of(client)

        def reply(*_: object) -> None:
            now = self._known(session, entry.name, kind, client, is_held=is_held)
            own = None if lists is None else lists.catalog.get(kind)
            listing = next(each for each in (own, now, known) if each is not None)
            hints = _NO_HINTS if lists is None else lists.hints(kind, self._state.ctx.now)
            if not request.is_over:
                self._reply_list(request, entry, kind, listing, hints)

        if lists is None:
            reply()
        else:
            lists.fresh(kind, reply)

    def _reply_list(
        self,
        request: ClientRequest,
        entry: Entry,
        kind: Kind,
        listing: Listing,
        hints: tuple[int, str],
    ) -> None:
        shown = self._state.filter_of(request.session, entry).apply(listing)
        page = shown.page()
        if request.client_info is not None:
            known = self._state.introduction_of(entry.name)
            info = (
                known.info
                if known is not None
                else msgspec.json.encode({"name": entry.name, "version": "0"})
            )
            if shown is not listing:
                hints = (hints[0], "private")
            page = modern.list_page(page, info, *hints)
        request.reply(page)

    def _reply_aggregate_list(self, request: ClientRequest) -> None:
        session, kind = request.session, _KINDS[request.method.kind or ""]
        servers = self._state.servers_of(session)
        client = self._state.client_of(session, request)
        if any(self.unlisted(server, kind, client) is not None for server in servers):
            session.incomplete.add(kind)
        page = self._state.aggregate_of(request).page(kind)
        if request.client_info is not None:
            known = [self._hints(session, server, kind, client) for server in servers]
            hints = known or [_NO_HINTS]
            ttl_ms = min(ttl for ttl, _ in hints)
            is_private = self._state.scope_of(session.principal) is not EVERYTHING or any(
                scope == "private" for _, scope in hints
            )
            scope = "private" if is_private else "public"
            page = modern.list_page(page, aggregate_info(self._state), ttl_ms, scope)
        request.reply(page)

    def _hints(
        self, session: Session, server: str, kind: Kind, client: ClientInfo | None
    ) -> tuple[int, str]:
        """Return for how many milliseconds a list may be kept, and by whom."""
        entry = self._state.entries.get(server)  # it may have been removed meanwhile
        upstream = session.upstreams.get(server)
        if upstream is None and entry is not None:
            upstream = self._state.upstreams.get(SlotId(entry.launch))
        lists = None if upstream is None else upstream.client_lists.get(client)
        return _NO_HINTS if lists is None else lists.hints(kind, self._state.ctx.now)

    def gather(
        self,
        session: Session,
        request: R,
        kinds: Collection[Kind],
        then: Callable[[R], None],
        servers: Iterable[str] | None = None,
        failures: list[Failure] | None = None,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Wait, ``list_wait`` at most, until every server of the aggregate has listed some kinds.

        With ``servers`` only these are waited for, until each has started or failed to; why is
        put into ``failures``. With ``is_fresh`` lists that may have changed are read again.
        """
        names = self._state.servers_of(session) if servers is None else servers
        gathering = Gathering(
            self._state,
            self._slots,
            self.unlisted,
            session,
            request,
            kinds,
            then,
            failures,
            is_fresh=is_fresh,
        )
        gathering.begin(names, has_limit=servers is None)

    def unlisted(self, server: str, kind: Kind, client: ClientInfo | None = None) -> Entry | None:
        """Return the entry of a server that may list something, and has not done it for a client.

        Without one it is whether it has for us.
        """
        entry, known = self._state.entry(server), self._state.catalog_for(server, client)
        if isinstance(entry, Failure) or known.get(kind) is not None:
            return None
        return entry if self.has(server, kind.capability) else None

    def has(self, server: str, capability: str, member: str | None = None) -> bool:
        """Tell whether a server has a capability, as far as is known: ``True`` before it ran."""
        known = self._state.introduction_of(server)
        return known is None or known.has(capability, member)
