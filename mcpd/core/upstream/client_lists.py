"""What a server lists for each client: modern ones may list by the capabilities of a request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import MsgspecError, json

from mcpd.core.catalog.model import Catalog, Item, Kind
from mcpd.core.facts import Failure
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.requests.calls import Calls
from mcpd.core.upstream import own_info
from mcpd.core.upstream.lists import ListHost, Lists

MOST_LISTS: Final = 16
"""How many sets of capabilities a server's lists are kept for, besides our own."""

LISTS_BYTES: Final = 8 * 1024 * 1024
"""How long all these lists together may be; those that are the same as ours do not count."""


class ClientLists:
    """The lists of one server for its clients, by the capabilities that they are read for.

    Clients that declare the same share them: those that declare what we do, and all clients of a
    legacy server, share ours. The lists that have not been asked for longest are forgotten first,
    once no request waits for them.
    """

    def __init__(self, ctx: Context, calls: Calls, host: ListHost, ours: Lists) -> None:
        """``host`` is the server, ``ours`` what it lists for us."""
        self._ctx = ctx
        self._calls = calls
        self._host = host
        self._ours = ours
        self._of: OrderedDict[str, Lists] = OrderedDict()

    def __iter__(self) -> Iterator[Lists]:
        return iter([*self._of.values()])

    def of(self, client: ClientInfo | None) -> Lists:
        """Return the lists for a client, which may have to be read first; ``None`` is us."""
        if client is None or not self._has_own(client):
            return self._ours
        key = key_of(self._calls.entry, client)
        if key not in self._of:
            self._of[key] = self._lists(key, Catalog())
        self._of.move_to_end(key)
        self.bound()
        return self._of[key]

    def get(self, client: ClientInfo | None) -> Lists | None:
        """Return the lists for a client, or ``None`` if the server was never asked for them."""
        if client is None or not self._has_own(client):
            return self._ours
        return self._of.get(key_of(self._calls.entry, client)) if self._of else None

    def shown(self, client: ClientInfo, kind: Kind) -> Lists:
        """Return the lists that a client is shown, or was before this daemon: ours if no others."""
        own = self.get(client)
        return self._ours if own is None or own.catalog.get(kind) is None else own

    def catalog_for(self, client: ClientInfo | None) -> Catalog:
        """Return what the server last listed for a client."""
        lists = self.get(client)
        return Catalog() if lists is None else lists.catalog

    def _has_own(self, client: ClientInfo) -> bool:
        if not self._host.lists_by_client:
            return False
        return key_of(self._calls.entry, client) != canonical(self._calls.ours.capabilities)

    def _lists(self, key: str, catalog: Catalog) -> Lists:
        told = key.encode(errors="replace")
        return Lists(self._ctx, self._calls, catalog, self._host, told, ours=self._ours)

    def bound(self) -> None:
        """Forget the lists that were not asked for longest, if there are too many."""
        sizes = {key: lists.size_bytes for key, lists in self._of.items()}
        for key in [*sizes][:-1]:
            if len(sizes) <= MOST_LISTS and sum(sizes.values()) <= LISTS_BYTES:
                return
            if not self._of[key].is_awaited:
                del sizes[key]
                self._of.pop(key).drop()

    def known(self) -> Mapping[str, Catalog]:
        """Return what is known, by the capabilities."""
        return {key: lists.catalog for key, lists in self._of.items() if lists.catalog.lists}

    def recall(self, known: Mapping[str, Catalog]) -> None:
        """Take over what an earlier process listed."""
        for key, catalog in known.items():
            self._of[key] = self._lists(key, catalog)
        self.bound()

    def tool(self, name: str) -> Item | None:
        """Return a tool that the server has listed for any client, or for us."""
        found = (lists.catalog.tool(name) for lists in (self._ours, *self._of.values()))
        return next((item for item in found if item is not None), None)

    def tool_for(self, client: ClientInfo | None, name: str) -> Item | None:
        """Return a tool as a client gets it, for what depends on its definition.

        Before the process has listed it for this client, what it has listed for us counts, and not
        what a process before it said.
        """
        ours, own = self._ours, self.get(client)
        if own is None or own is ours:
            return ours.catalog.tool(name)
        is_old = ours.are_of_process(Kind.TOOLS) and not own.are_of_process(Kind.TOOLS)
        first, second = (ours, own) if is_old else (own, ours)
        return first.catalog.tool(name) or second.catalog.tool(name)

    def outdate_others(self, kind: Kind, lists: Lists) -> None:
        """Have a list read when it is next asked for, but not that of ``lists``."""
        for others in (self._ours, *self._of.values()):
            if others is not lists:
                others.outdate(kind)

    def verify(self, used: Collection[Lists]) -> None:
        """Read again, from a new process, the lists in use; the others when next asked for."""
        for lists in self:
            if lists in used:
                lists.verify()
            else:
                lists.outdate_all()

    def compare(self, kinds: list[Kind]) -> None:
        """Read lists again whose changes the server may not have reported."""
        for lists in (self._ours, *self):
            lists.compare(kinds)

    def lose(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """Note that the process is gone; what it listed is kept, ours and that of clients."""
        for lists in (self._ours, *self):
            lists.lose(failure, is_planned=is_planned, comes_back=comes_back)

    def clear(self) -> None:
        """Forget all but our lists: the server is a legacy one and lists the same for all."""
        self._of.clear()


def key_of(entry: Entry, client: ClientInfo) -> str:
    """Return the capabilities that a server's lists are read with for a client, as JSON."""
    return canonical(own_info.allowed(entry, client).capabilities)


@lru_cache(maxsize=32)
def canonical(capabilities: bytes) -> str:
    """Return the same text for capabilities that differ only in how they are written."""
    try:
        found: Any = json.decode(capabilities)
        return json.encode(found, order="sorted").decode()
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return capabilities.decode(errors="replace")
