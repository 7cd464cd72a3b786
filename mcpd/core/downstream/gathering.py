"""A request that waits until several servers have listed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Generic

from mcpd.core.catalog.model import Kind, Listing
from mcpd.core.facts import Failure
from mcpd.core.interface.context import Timer
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.state.session import Session
from mcpd.core.state.slots import Slots
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import R
from mcpd.core.upstream.list_reading import ListWaiter
from mcpd.core.upstream.lists import Lists
from mcpd.core.upstream.upstream import Upstream


class Gathering(Generic[R]):
    """A request that waits until several servers have listed."""

    def __init__(
        self,
        state: MuxState,
        slots: Slots,
        unlisted: Callable[[str, Kind, ClientInfo | None], Entry | None],
        session: Session,
        request: R,
        kinds: Collection[Kind],
        then: Callable[[R], None],
        failures: list[Failure] | None,
        *,
        is_fresh: bool,
    ) -> None:
        """``unlisted`` returns the entry of a server that has not listed something for a client.

        ``then`` is called with the request once all have listed, ``failures`` gets the reasons of
        those that could not. With ``is_fresh`` lists that may have changed are read again.
        """
        self._state = state
        self._slots = slots
        self._unlisted = unlisted
        self._session = session
        self._request = request
        self._kinds = kinds
        self._then = then
        self._failures = failures
        self._is_fresh = is_fresh
        self._client = state.client_of(session, request)
        self._missing: set[tuple[str, Kind]] = set()
        self._waits: dict[tuple[str, Kind], tuple[Lists, ListWaiter]] = {}
        self._timer: Timer | None = None
        self._is_asked = False
        self._is_done = False

    def begin(self, servers: Iterable[str], *, has_limit: bool) -> None:
        """Ask the servers; with ``has_limit`` wait for ``list_wait`` seconds at most."""
        ctx = self._state.ctx
        if has_limit:
            self._timer = ctx.after(ctx.settings.list_wait, self._finish)
        for part in itertools.product(servers, self._kinds):
            self._ask(part)
        self._is_asked = True
        self._settle()
        if self._missing and not self._is_done:
            self._request.leave = self._leave

    def _ask(self, part: tuple[str, Kind]) -> None:
        (server, kind), state = part, self._state
        entry = self._unlisted(server, kind, self._client)
        if entry is not None:
            self._missing.add(part)
            upstream = self._session.upstreams.get(server) or self._slots.control_upstream(
                entry, self._session.workspace
            )
            lists = upstream.client_lists.of(self._client)
            waiter = partial(self._arrived, part, upstream, lists)
            self._waits[part] = (lists, waiter)
            lists.listing(kind, waiter)
            return
        lister = state.lister(self._session, server) if self._is_fresh else None
        if lister is not None:
            self._missing.add(part)
            lister.client_lists.of(self._client).fresh(kind, partial(self._refreshed, part))

    def _arrived(
        self,
        part: tuple[str, Kind],
        upstream: Upstream,
        lists: Lists,
        listing: Listing | None,
        failure: Failure | None,
    ) -> None:
        self._missing.discard(part)
        self._waits.pop(part, None)
        is_there = not self._is_done and (
            self._state.sessions.get(self._session.id) is self._session
        )
        if failure is not None:
            if is_there and self._state.has_left(upstream):
                for kind in self._kinds:  # what the one that took its place lists counts
                    self._ask((part[0], kind))
            elif self._failures is not None:
                self._failures.append(failure)
        elif is_there and upstream.client_lists.of(self._client) is not lists:
            self._ask(part)  # only now it is known that the client has lists of its own
        self._settle()

    def _refreshed(self, part: tuple[str, Kind]) -> None:
        self._missing.discard(part)
        self._settle()

    def _settle(self) -> None:
        if not self._missing and self._is_asked:
            self._finish()

    def _finish(self) -> None:
        if not self._is_done:
            self._request.leave = None
            self._leave()
            if not self._request.is_over:
                self._then(self._request)

    def _leave(self) -> None:
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
        for (_, kind), (lists, waiter) in self._waits.items():
            lists.wait_no_more(kind, waiter)
        self._waits.clear()
