"""The aggregate endpoint's view of all listed servers: names, pages, owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcpd.core.catalog import merge
from mcpd.core.catalog.model import Catalog, Kind, Listing
from mcpd.core.catalog.naming import qualify, sanitise
from mcpd.core.interface.entries import Entry
from mcpd.core.wire import envelope

CatalogOf = Callable[[str], Catalog]
"""What a server last listed, by its name."""


class Aggregate:
    """The lists of many servers as one list; only what has changed is merged again."""

    def __init__(self, catalog_of: CatalogOf, ours: Aggregate | None = None) -> None:
        """``ours`` is the view of ourselves, for that of a client: what is the same is shared."""
        self._catalog_of = catalog_of
        self._ours = ours
        self._entries: dict[str, Entry] = {}
        self._parts: dict[tuple[str, Kind], merge.Part] = {}
        self._pages: dict[Kind, bytes] = {}
        self._routes: dict[Kind, dict[str, tuple[str, str]]] = {}
        self._owners: merge.Owners | None = None

    def configure(self, entries: Mapping[str, Entry]) -> None:
        """Take the configuration in its order."""
        self._entries = dict(entries)
        self._parts.clear()
        self._forget_all()

    def servers(self) -> list[str]:
        """Return the servers that are part of it, in config order."""
        return [e.name for e in self._entries.values() if e.is_listed and e.unavailable is None]

    def forget(self, server: str, kind: Kind) -> None:
        """A list of this server is another one now."""
        self._parts.pop((server, kind), None)
        self._pages.pop(kind, None)
        self._routes.pop(kind, None)
        if kind in (Kind.RESOURCES, Kind.TEMPLATES):
            self._owners = None

    def listing(self, server: str, kind: Kind) -> Listing | None:
        """Return a list of a server as it is part of this."""
        return self._catalog_of(server).get(kind)

    def page(self, kind: Kind) -> bytes:
        """Return the result of a list request."""
        if self._ours is not None:  # there are many of these: it is not kept
            return merge.aggregate_page(kind, self._parts_of(kind))
        if kind not in self._pages:
            self._pages[kind] = merge.aggregate_page(kind, self._parts_of(kind))
        return self._pages[kind]

    def route(self, kind: Kind, qualified: str) -> tuple[str, str] | None:
        """Return the server and its own name for a tool or prompt, ``None`` where nobody has it."""
        return self._routes_of(kind).get(qualified)

    def names(self, kind: Kind) -> list[str]:
        """Return all qualified names of tools or prompts."""
        return list(self._routes_of(kind))

    def qualified(self, server: str, kind: Kind) -> Mapping[str, str]:
        """Return the qualified names of a server's tools or prompts, by its own names."""
        part = self._part(server, kind)
        return part.names if part is not None else {}

    def candidates(self, qualified: str) -> list[str]:
        """Return the servers whose tools and prompts could have a name like this."""
        return [s for s in self.servers() if qualified.startswith(sanitise(self._shown(s))[:40])]

    def owner(self, uri: str) -> str | None:
        """Return the server a resource URI belongs to."""
        return self._known_owners().owner(uri)

    def template_owner(self, template: str) -> str | None:
        """Return the server that lists this template."""
        return self._known_owners().template_owner(template)

    def instructions(self, known: Mapping[str, bytes | None]) -> bytes | None:
        """Return a JSON string: a paragraph for each server whose instructions are known."""
        texts = [
            (self._shown(server), envelope.text(raw))
            for server in self.servers()
            if (raw := known.get(server)) is not None
        ]
        text = merge.instructions(texts)
        return None if text is None else envelope.quote(text)

    def _known_owners(self) -> merge.Owners:
        if self._owners is None:
            resources = self._parts_of(Kind.RESOURCES)
            self._owners = merge.Owners(resources, self._parts_of(Kind.TEMPLATES))
        return self._owners

    def _routes_of(self, kind: Kind) -> dict[str, tuple[str, str]]:
        if kind not in self._routes:
            self._routes[kind] = merge.route_names(self._parts_of(kind))
        return self._routes[kind]

    def _parts_of(self, kind: Kind) -> list[merge.Part]:
        parts = (self._part(server, kind) for server in self.servers())
        return [part for part in parts if part is not None]

    def _part(self, server: str, kind: Kind) -> merge.Part | None:
        known = self._parts.get((server, kind))
        if known is not None:
            return known
        listing = self.listing(server, kind)
        if listing is None:
            return None
        if self._ours is not None and listing is self._ours.listing(server, kind):
            return self._ours._part(server, kind)
        names: dict[str, str] = {}
        if kind in (Kind.TOOLS, Kind.PROMPTS):
            everything = [item.identity for item in listing.items]
            shown = [entry.shown_name for entry in self._entries.values()]
            names = qualify(shown, self._shown(server), everything)
        if server in self._entries:
            listing = self._entries[server].filter.apply(listing)
        if kind is Kind.TOOLS:
            left = {item.identity for item in listing.items}
            names = {name: full for name, full in names.items() if name in left}
        part = merge.Part(server, listing, names)
        self._parts[server, kind] = part
        return part

    def _shown(self, server: str) -> str:
        entry = self._entries.get(server)
        return server if entry is None else entry.shown_name

    def _forget_all(self) -> None:
        self._pages.clear()
        self._routes.clear()
        self._owners = None
