"""Many servers' lists as one: the view of the aggregate.

The caller gives the parts in config order and keeps a ``Part`` for as long as its listing and
names do not change, because the renamed entries are kept in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mcpd.core.catalog.model import Item, Kind, Listing, list_result
from mcpd.core.catalog.templates import UriMatch
from mcpd.core.wire.splice import replace


class Part:
    """One server's list as it appears in the aggregate."""

    def __init__(self, server: str, listing: Listing, names: Mapping[str, str] | None = None):
        """Take a listing and, for tools and prompts, the qualified names of its entries."""
        self.server: Final = server
        self.listing: Final = listing
        self.names: Final = names or {}
        self._renamed: tuple[bytes, ...] | None = None

    def renamed(self) -> tuple[bytes, ...]:
        """Return the entries with their names qualified and every other byte as it was.

        An entry that repeats a name is left out: only the first could ever be called.
        """
        if self._renamed is None:
            first: dict[str, bytes] = {}
            for item in self.listing.items:
                if item.identity not in first:
                    quoted = b'"%b"' % self.names[item.identity].encode()
                    first[item.identity] = replace(item.raw, "name", quoted)
            self._renamed = tuple(first.values())
        return self._renamed


def aggregate_page(kind: Kind, parts: Sequence[Part]) -> bytes:
    """Return the result of a list request to the aggregate: config order, then the server's own.

    Tools and prompts have their qualified names. Resources and templates stay as they are; of
    two servers that list the same one the first owns it, and the other's is left out.
    """
    if kind in (Kind.TOOLS, Kind.PROMPTS):
        return list_result(kind, (raw for part in parts for raw in part.renamed()))
    first: dict[str, Item] = {}
    for part in parts:
        for item in part.listing.items:
            first.setdefault(item.identity, item)
    return list_result(kind, (item.raw for item in first.values()))


def route_names(parts: Sequence[Part]) -> dict[str, tuple[str, str]]:
    """Return the way back: qualified name → (server, the server's own name)."""
    routes: dict[str, tuple[str, str]] = {}
    for part in parts:
        for name, qualified in part.names.items():
            routes.setdefault(qualified, (part.server, name))
    return routes


class Owners:
    """Which server a resource URI belongs to."""

    def __init__(self, resources: Sequence[Part], templates: Sequence[Part]) -> None:
        """Take the parts of both kinds, each in config order."""
        self._listed: dict[str, str] = {}
        for part in resources:
            for item in part.listing.items:
                self._listed.setdefault(item.identity, part.server)
        self._templates = templates

    def owner(self, uri: str) -> str | None:
        """Return the server that lists the URI, else the first with a matching template."""
        if (server := self._listed.get(uri)) is not None:
            return server
        match = UriMatch(uri)
        for part in self._templates:
            if match.any_of(item.identity for item in part.listing.items):
                return part.server
        return None

    def template_owner(self, uri_template: str) -> str | None:
        """Return the first server that lists exactly this template: what a completion refers to."""
        for part in self._templates:
            if part.listing.get(uri_template) is not None:
                return part.server
        return None


def instructions(parts: Iterable[tuple[str, str | None]]) -> str | None:
    """Return a paragraph ``NAME: …`` for each server whose instructions are known and not empty."""
    known = (f"{server}: {text.strip()}" for server, text in parts if text and text.strip())
    return "\n\n".join(known) or None
