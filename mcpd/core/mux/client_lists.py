"""What a modern server lists for clients that declare other capabilities than we do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import MsgspecError, json

from mcpd.core.catalog.model import Catalog, Item
from mcpd.core.facts import Failure
from mcpd.core.mcp.asker import Asker
from mcpd.core.mux import ourselves
from mcpd.core.mux.effects import Effects
from mcpd.core.mux.entries import Entry
from mcpd.core.mux.lists import ListHost, Lists
from mcpd.core.mux.requests import Requests

MOST_LISTS: Final = 16
"""How many sets of capabilities a server's lists are kept for, besides our own."""

LISTS_BYTES: Final = 8 * 1024 * 1024
"""How long all these lists together may be; those that are the same as ours do not count."""


class ClientLists:
    """The lists of one server, by the capabilities that they are read for.

    Clients that declare the same share them. Those that were not asked for longest go first, once
    nobody waits for them.
    """

    def __init__(self, effects: Effects, requests: Requests, host: ListHost, ours: Lists) -> None:
        """``host`` is the server, ``ours`` what it lists for us."""
        self._fx = effects
        self._requests = requests
        self._host = host
        self._ours = ours
        self._of: OrderedDict[str, Lists] = OrderedDict()

    def __iter__(self) -> Iterator[Lists]:
        return iter([*self._of.values()])

    def get(self, client: Asker) -> Lists | None:
        """Return the lists for a client, if there are any."""
        return self._of.get(key_of(self._requests.entry, client)) if self._of else None

    def of(self, client: Asker) -> Lists:
        """Return the lists for a client, which may have to be read first."""
        key = key_of(self._requests.entry, client)
        if key not in self._of:
            self._of[key] = self._lists(key, Catalog())
        self._of.move_to_end(key)
        self.bound()
        return self._of[key]

    def _lists(self, key: str, catalog: Catalog) -> Lists:
        told = key.encode(errors="replace")
        return Lists(self._fx, self._requests, catalog, self._host, told, ours=self._ours)

    def bound(self) -> None:
        """Forget the lists that were not asked for longest, if there are too many."""
        sizes = {key: lists.size_bytes for key, lists in self._of.items()}
        for key in [*sizes][:-1]:
            if len(sizes) <= MOST_LISTS and sum(sizes.values()) <= LISTS_BYTES:
                return
            if not self._of[key].is_awaited:
                del sizes[key]
                self._of.pop(key).catalog = Catalog()  # of a circle, and the collector comes late

    def known(self) -> Mapping[str, Catalog]:
        """Return what is known, by the capabilities."""
        return {key: lists.catalog for key, lists in self._of.items() if lists.catalog.lists}

    def recall(self, known: Mapping[str, Catalog]) -> None:
        """Take over what an earlier process listed."""
        for key, catalog in known.items():
            self._of[key] = self._lists(key, catalog)
        self.bound()

    def tool(self, name: str) -> Item | None:
        """Return a tool that is listed for any of these clients."""
        found = (lists.catalog.tool(name) for lists in self._of.values())
        return next((item for item in found if item is not None), None)

    def lose(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """The process is gone; what it listed is kept."""
        for lists in [*self._of.values()]:
            lists.lose(failure, is_planned=is_planned, comes_back=comes_back)

    def clear(self) -> None:
        """The server lists the same for everybody: it is a legacy one."""
        self._of.clear()


def key_of(entry: Entry, client: Asker) -> str:
    """Return the capabilities that a server's lists are read with for a client, as JSON."""
    return canonical(ourselves.allowed(entry, client).capabilities)


@lru_cache(maxsize=32)
def canonical(capabilities: bytes) -> str:
    """Return the same text for capabilities that differ only in how they are written."""
    try:
        found: Any = json.decode(capabilities)
        return json.encode(found, order="sorted").decode()
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return capabilities.decode(errors="replace")
