"""What clients get of the definitions of one server: sanitised, and as they were approved."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from mcpd.core.catalog import sanitise
from mcpd.core.catalog.canonical import PINNED
from mcpd.core.catalog.examine import KINDS, Examined
from mcpd.core.catalog.model import Catalog, Item, Kind, Listing
from mcpd.core.catalog.pins import Seen
from mcpd.core.catalog.sanitise import Removed
from mcpd.core.definitions.approved import ApprovedDefinitions


class Heard(NamedTuple):
    """A list as the server sent it, and what was seen in it."""

    listing: Listing
    examined: tuple[Examined, ...] = ()


class Reviewed(NamedTuple):
    """A list as clients get it. ``hides``: what differs from the last one may be held back."""

    listing: Listing
    heard: Heard
    hides: bool = False


class ServedDefinitions:
    """Makes what clients get from what a server sent, or has sent before."""

    def __init__(self, approved: ApprovedDefinitions) -> None:
        self._approved = approved

    # -- lists -----------------------------------------------------------------------------------

    def of(self, key: str, heard: Heard, served: Listing | None) -> Reviewed:
        """Return what clients get of a list that was heard; ``served`` is what they got before."""
        kind = heard.listing.kind
        if self._approved.is_lost and kind in PINNED:
            return Reviewed(served or Listing.empty(kind), heard, hides=True)
        table = self._approved.table(key, kind)
        is_held = self._approved.holds and table is not None
        items: list[Item] = []
        hides = False
        names: set[str] = set()
        for each in heard.examined:
            name, raw = each.item.identity, each.clean
            if kind in PINNED and name in names:
                continue  # of a name that is listed twice the first is served
            names.add(name)
            pin = None if table is None or not is_held else table.get(name)
            if is_held and each.seen is not None and not self._approved.is_approved(pin, each):
                hides = True
                if pin is None or pin.approved is None or each.is_broken:
                    continue
                raw = self._clean(pin.approved)
            items.append(each.item if raw == each.item.raw else Item(name, raw))
        if served is not None and _is_same(items, served.items):
            return Reviewed(served, heard, hides)
        if _is_same(items, heard.listing.items):
            return Reviewed(heard.listing, heard, hides)
        return Reviewed(Listing(kind, items), heard, hides)

    def unexamined(self, listing: Listing, served: Listing | None) -> Reviewed:
        """Return what clients get of a list that could not be examined."""
        is_held = self._approved.holds
        kept = (served or Listing.empty(listing.kind)) if is_held else listing
        return Reviewed(kept, Heard(listing), hides=is_held)

    def recalled(self, key: str, listing: Listing, fresh: Collection[str] = ()) -> Listing:
        """Return what clients get of a list of an earlier process, which they got until now.

        ``fresh`` are the names of definitions that have been approved since.
        """
        if self._approved.is_lost:
            return listing
        kind, is_held = listing.kind, self._approved.holds
        table = self._approved.table(key, kind)
        items: list[Item] = []
        for item in listing.items:
            pin = None if table is None else table.get(item.identity)
            raw: bytes | None = self._clean_bytes(item.raw)
            if pin is not None and (pin.state != "approved" or item.identity in fresh):
                seen = pin.approved if is_held else pin.now
                raw = None if seen is None else self._clean(seen)
            if raw is not None:
                items.append(item if raw == item.raw else Item(item.identity, raw))
        known = {item.identity for item in listing.items}
        for name, pin in ({} if table is None else table).items():
            seen = pin.approved if is_held else pin.now
            if name not in known and pin.now is not None and seen is not None:
                items.append(Item(name, self._clean(seen)))
        return listing if _is_same(items, listing.items) else Listing(kind, items)

    def recalled_catalog(
        self, key: str, catalog: Catalog, fresh: Collection[tuple[str, str]] = ()
    ) -> Catalog:
        """Return what clients get of lists of an earlier process.

        ``fresh`` are the kinds and names of definitions that have been approved since.
        """
        lists = {
            kind: self.recalled(key, listing, _names_of(kind, fresh))
            for kind, listing in catalog.lists.items()
        }
        is_same = all(lists[kind] is listing for kind, listing in catalog.lists.items())
        return catalog if is_same else Catalog(lists)

    # -- instructions ------------------------------------------------------------------------------

    def instructions(self, key: str, raw: bytes | None) -> bytes | None:
        """Return what clients get of instructions that the server has sent just now."""
        pin = self._approved.instructions_pin(key)
        is_held = self._approved.holds and pin is not None and pin.state != "approved"
        return self.instructions_again(key, raw) if is_held else self._clean_text(raw)

    def instructions_again(self, key: str, served: bytes | None) -> bytes | None:
        """Return the instructions that clients get now, who got ``served`` until now."""
        pin = self._approved.instructions_pin(key)
        if pin is None or self._approved.is_lost:
            return self._clean_text(served)
        seen = pin.approved if self._approved.holds else pin.now
        is_gone = seen is None or pin.state == "gone"
        return None if is_gone or seen is None else self._clean_text(seen.raw.encode())

    # -- sanitising ------------------------------------------------------------------------------

    def _clean(self, seen: Seen) -> bytes:
        return self._clean_bytes(seen.raw.encode())

    def _clean_bytes(self, raw: bytes) -> bytes:
        try:
            return sanitise.clean_json(raw, self._approved.rules.sanitise, Removed())
        except (ValueError, RecursionError):
            return raw

    def _clean_text(self, raw: bytes | None) -> bytes | None:
        found: bytes | None = sanitise.clean_value(raw, self._approved.rules.sanitise, Removed())
        return found


def _names_of(kind: Kind, fresh: Collection[tuple[str, str]]) -> list[str]:
    return [name for what, name in fresh if what == KINDS[kind]]


def _is_same(new: Sequence[Item], old: Sequence[Item]) -> bool:
    """Tell whether two lists have the same entries, however their pages are written."""
    return len(new) == len(old) and all(
        each.raw == other.raw for each, other in zip(new, old, strict=True)
    )
