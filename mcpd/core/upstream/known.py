"""What is known of a launch, whether a process of it runs or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mcpd.core.catalog.model import Catalog
from mcpd.core.interface.commands import KeepCatalog
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.offer import FULL, Verdict
from mcpd.core.mcp.versions import Era
from mcpd.core.upstream import own_info
from mcpd.core.upstream.client_lists import canonical, key_of


class Known(NamedTuple):
    """What is known of a launch, whether a process of it runs or not.

    ``verdict`` is how the last handshake succeeded. ``capabilities`` were declared to the process
    that said so, as JSON; what it lists may depend on them. ``of_clients`` is what a modern one
    listed with others, by these (see ``key_of``). ``others`` are lists that it has not read, of
    processes that were told other capabilities.
    """

    introduction: Introduction | None
    catalog: Catalog
    verdict: Verdict | None = None
    has_asked: bool = False
    capabilities: bytes = b"{}"
    of_clients: Mapping[str, Catalog] = {}
    others: Catalog = Catalog()

    @property
    def newest(self) -> Catalog:
        """Return the newest list of each kind, whichever process read it."""
        if not self.others.lists:
            return self.catalog
        return Catalog({**self.others.lists, **self.catalog.lists})

    def after(self, before: Known) -> Known:
        """Return this with those lists of ``before`` that have not been read since."""
        introduction, read = self.introduction, self.catalog.lists
        missing = {
            kind: listing
            for kind, listing in before.newest.lists.items()
            if kind not in read and (introduction is None or introduction.has(kind.capability))
        }
        if canonical(before.capabilities) != canonical(self.capabilities):
            return self._replace(others=Catalog(missing))
        own = {kind: missing[kind] for kind in before.catalog.lists if kind in missing}
        others = {kind: listing for kind, listing in missing.items() if kind not in own}
        return self._replace(catalog=Catalog({**own, **read}), others=Catalog(others))

    def catalog_for(self, entry: Entry, client: ClientInfo) -> Catalog:
        """Return what was listed for a client, as far as that is known."""
        if self.introduction is None or self.introduction.era is not Era.MODERN:
            return self.catalog
        key = key_of(entry, client)
        ours = own_info.client_info_for(entry, None, "").capabilities
        return self.catalog if key == canonical(ours) else self.of_clients.get(key, Catalog())

    def kept(self, introduction: Introduction, entry: Entry) -> KeepCatalog:
        """Return the command that puts this on disk, of a server that has introduced itself."""
        return KeepCatalog(
            entry.name,
            entry.launch,
            introduction,
            self.catalog,
            self.has_asked,
            FULL if self.verdict is None else self.verdict.offer,
            self.capabilities,
            self.of_clients,
        )
