"""Reading a list page by page until it is whole, or has gone on for too long."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.catalog.model import Kind, Listing, Page, merge_pages, parse_page


class Limits(msgspec.Struct, frozen=True):
    """How long a list may get. An empty page counts as one entry, so that paging always ends."""

    entries: int = 10_000
    size_bytes: int = 64 * 1024 * 1024


class Paging:
    """One reading of one list: give it each result, and ask for the cursor it returns.

    A page that cannot be read raises and leaves the reading useless: the caller keeps the
    previous list.
    """

    def __init__(self, kind: Kind, limits: Limits | None = None) -> None:
        self.kind: Final = kind
        self.notes: list[str] = []
        """What was odd about the list, for the server's log: sentences without the server."""
        self._limits = limits or Limits()
        self._pages: list[Page] = []
        self._cursors: set[str] = set()
        self._entries = 0
        self._size = 0

    def take(self, result: Raw | bytes) -> str | None:
        """Take the next page; return the cursor to ask for next, or ``None`` at the end.

        Raises:
            ListError: the server's fault; the result is no list of this kind.
        """
        page = parse_page(self.kind, result)
        if page.dropped:
            self._note(f"{page.dropped} entries without {self.kind.identity!r} left out")
        page = self._within_limits(page)
        self._pages.append(page)
        cursor = page.next_cursor
        if cursor is None:
            return None
        if cursor in self._cursors:
            self._note("its cursor does not advance; stopped there")
            return None
        self._cursors.add(cursor)
        return cursor

    def listing(self) -> Listing:
        """Return the list as read so far."""
        return merge_pages(self._pages) if self._pages else Listing.empty(self.kind)

    def _within_limits(self, page: Page) -> Page:
        room = self._limits.entries - self._entries
        self._entries += max(1, len(page.items))
        self._size += page.size_bytes
        if self._size > self._limits.size_bytes:
            self._note(f"more than {self._limits.size_bytes} bytes; cut there")
            room = 0
        elif self._entries > self._limits.entries or (
            self._entries == self._limits.entries and page.next_cursor is not None
        ):
            self._note(f"more than {self._limits.entries} entries; cut there")
        else:
            return page
        return msgspec.structs.replace(page, items=page.items[:room], next_cursor=None, whole=None)

    def _note(self, what: str) -> None:
        self.notes.append(f"{self.kind.method}: {what}")
