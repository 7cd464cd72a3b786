"""Reads a list page by page, up to a limit."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.catalog.model import (
    MOST_ENTRIES,
    MOST_ENTRY_BYTES,
    Kind,
    ListError,
    Listing,
    Page,
    merge_pages,
    parse_page,
)
from mcpd.core.mcp import modern
from mcpd.core.wire.envelope import object_of, text

_MOST_DIGITS: Final = 15


class Hints(msgspec.Struct, frozen=True):
    """How long and for whom a list may be cached (2026-07-28, server/utilities/caching)."""

    ttl_ms: int = 0
    scope: str = "private"

    def strictest(self, other: Hints) -> Hints:
        """Return the hints for two pages together."""
        scope = "public" if self.scope == other.scope == "public" else "private"
        return Hints(min(self.ttl_ms, other.ttl_ms), scope)

    def less(self, age_s: float) -> Hints:
        """Return the hints after ``age_s`` seconds."""
        return Hints(max(0, self.ttl_ms - int(age_s * 1000)), self.scope)


class Limits(msgspec.Struct, frozen=True):
    """The largest list. An empty page counts as one entry, so that paging always ends."""

    entries: int = MOST_ENTRIES
    size_bytes: int = 64 * 1024 * 1024


class Paging:
    """Reads one list: pass each result to ``take``, and request the cursor that it returns.

    After a ``ListError`` the caller discards the paging and keeps the previous list.
    """

    def __init__(self, kind: Kind, limits: Limits | None = None) -> None:
        self.kind: Final = kind
        self.notes: list[str] = []
        """Problems of the list, for the server's log; each a sentence."""
        self.hints: Hints | None = None
        """The hints of all pages so far; ``None`` for a legacy server."""
        self._limits = limits or Limits()
        self._pages: list[Page] = []
        self._cursors: set[str] = set()
        self._entries = 0
        self._size = 0

    def take(self, result: Raw | bytes, *, is_modern: bool = False) -> str | None:
        """Take the next page; return the cursor to ask for next, or ``None`` at the end.

        The result type and the hints of a modern server are removed from the result.

        Raises:
            ListError: the result has no list of this kind.
        """
        if is_modern:
            result = self._without_envelope(result)
        page = parse_page(self.kind, result)
        if page.dropped:
            self._note(
                f"{page.dropped} entries left out: without {self.kind.identity!r}, or over "
                f"{MOST_ENTRY_BYTES} bytes"
            )
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

    def _without_envelope(self, result: Raw | bytes) -> bytes:
        said = modern.result_type(result)
        if said != "complete":
            raise ListError(f"the result of {self.kind.method} is of the type {said!r}")
        hints = _hints_of(result)
        self.hints = hints if self.hints is None else self.hints.strictest(hints)
        return modern.to_legacy_result(result)

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


def _hints_of(result: Raw | bytes) -> Hints:
    members = object_of(result) or {}
    ttl = bytes(members.get("ttlMs", Raw(b"")))
    scope = text(members.get("cacheScope", Raw(b"null")))
    return Hints(
        int(ttl) if ttl.isdigit() and len(ttl) <= _MOST_DIGITS else 0,
        "public" if scope == "public" else "private",
    )
