"""Merges the lists of all servers into those of the aggregate.

The caller passes the parts in config order. It keeps a ``Part`` until its listing or names change,
because the part caches the renamed entries.
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
        """``names`` are the qualified names by the server's own, for tools and prompts."""
        self.server: Final = server
        self.listing: Final = listing
        self.names: Final = names or {}
        self._renamed: tuple[bytes, ...] | None = None

    def renamed(self) -> tuple[bytes, ...]:
        """Return the entries with their qualified names; every other byte is unchanged.

        An entry that repeats a name is left out: only the first can be called.
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
    """Return the result of a list request to the aggregate, in the order of the parts.

    Tools and prompts have their qualified names. Resources and templates are unchanged; if several
    servers list the same one, it is the first server's, and the others' are left out.
    """
    if kind in (Kind.TOOLS, Kind.PROMPTS):
        return list_result(kind, (raw for part in parts for raw in part.renamed()))
    first: dict[str, Item] = {}
    for part in parts:
        for item in part.listing.items:
            first.setdefault(item.identity, item)
    return list_result(kind, (item.raw for item in first.values()))


def route_names(parts: Sequence[Part]) -> dict[str, tuple[str, str]]:
    """Return the server and its own name for each qualified name."""
    routes: dict[str, tuple[str, str]] = {}
    for part in parts:
        for name, qualified in part.names.items():
            routes.setdefault(qualified, (part.server, name))
    return routes


class Owners:
    """Finds the server that a resource URI belongs to."""

    def __init__(self, resources: Sequence[Part], templates: Sequence[Part]) -> None:
        """Both sequences are in config order."""
        self._listed: dict[str, str] = {}
        for part in resources:
            for item in part.listing.items:
                self._listed.setdefault(item.identity, part.server)
        self._templates = templates

    def owner(self, uri: str) -> str | None:
        """Return the first server that lists the URI, else the first with a matching template."""
        if (server := self._listed.get(uri)) is not None:
            return server
        match = UriMatch(uri)
        for part in self._templates:
            if match.any_of(item.identity for item in part.listing.items):
                return part.server
        return None

    def template_owner(self, uri_template: str) -> str | None:
        """Return the first server that lists exactly this template, for a completion."""
        for part in self._templates:
            if part.listing.get(uri_template) is not None:
                return part.server
        return None


def instructions(parts: Iterable[tuple[str, str | None]]) -> str | None:
    """Return a paragraph ``NAME: TEXT`` for each server with instructions; ``None`` without any."""
    known = (f"{server}: {text.strip()}" for server, text in parts if text and text.strip())
    return "\n\n".join(known) or None
