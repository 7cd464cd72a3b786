"""The lists of all servers together, as we and as clients are shown them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.model import Catalog, Kind
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.state.aggregate import Aggregate, CatalogOf
from mcpd.core.state.views import Views
from mcpd.core.upstream.client_lists import MOST_LISTS
from mcpd.principal import EVERYTHING, Scope


class ShownLists:
    """One aggregate for each way to see the servers.

    Most clients are shown what we are. Others get an aggregate of their own, by what they declare,
    may use and know.
    """

    def __init__(
        self,
        catalog_of: CatalogOf,
        catalog_for: Callable[[str, ClientInfo], Catalog],
        filter_within: Callable[[Scope, Entry], Filter],
    ) -> None:
        """``catalog_of`` returns what a server listed for us, ``catalog_for`` for a client.

        ``filter_within`` returns what of a server is shown within a scope.
        """
        self._catalog_of = catalog_of
        self._catalog_for = catalog_for
        self._filter_within = filter_within
        self._views = Views()
        self._users = Aggregate(catalog_of)
        """The lists of all the user's servers as we are shown them."""
        self._of_projects: dict[str, Aggregate] = {}
        """The same with those of a project, by workspace."""
        self._of_clients: OrderedDict[tuple[bytes, Scope, str | None], Aggregate] = OrderedDict()
        """The same as clients are shown them, until a list changes."""

    def configure(self, views: Views) -> None:
        """Take the servers of the configuration, for each workspace."""
        self._views = views
        self._users.configure(views.of(None))
        self._of_projects.clear()
        self._of_clients.clear()

    def forget(self, server: str) -> None:
        """A list of this server is another one now, for somebody."""
        for aggregate in (self._users, *self._of_projects.values()):
            for kind in Kind:
                aggregate.forget(server, kind)
        self._of_clients.clear()

    def ours(self, workspace: str | None) -> Aggregate:
        """Return the lists of all servers that a workspace knows as we are shown them."""
        key = self._views.key(workspace)
        if key is None:
            return self._users
        found = self._of_projects.get(key)
        if found is None:
            found = self._of_projects[key] = Aggregate(self._catalog_of)
            found.configure(self._views.of(key))
        return found

    def for_client(self, client: ClientInfo, scope: Scope, workspace: str | None) -> Aggregate:
        """Return them as a client is shown them that may use ``scope``."""
        workspace = self._views.key(workspace)
        told = client.capabilities, scope, workspace
        found = self._of_clients.get(told)
        if found is None:
            found = self._of_clients[told] = self._view_of(client, scope, workspace)
            if len(self._of_clients) > MOST_LISTS:
                self._of_clients.popitem(last=False)
        self._of_clients.move_to_end(told)
        return found

    def _view_of(self, client: ClientInfo, scope: Scope, workspace: str | None) -> Aggregate:
        entries, ours = self._views.of(workspace), self.ours(workspace)

        def catalog_of(name: str) -> Catalog:
            ours, own = self._catalog_of(name), self._catalog_for(name, client)
            return ours if own is ours else Catalog({**ours.lists, **own.lists})

        if scope != EVERYTHING:
            found = Aggregate(catalog_of)
            found.configure(
                {
                    name: msgspec.structs.replace(
                        entry,
                        filter=self._filter_within(scope, entry),
                    )
                    for name, entry in entries.items()
                    if scope.has(entry.shown_name)
                }
            )
            return found
        if all(
            listing is self._catalog_of(name).get(kind)
            for name in ours.servers()
            for kind, listing in self._catalog_for(name, client).lists.items()
        ):
            return ours
        found = Aggregate(catalog_of, ours)
        found.configure(entries)
        return found
