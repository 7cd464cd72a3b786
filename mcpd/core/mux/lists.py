"""What one server lists: read page by page, kept, and read anew when it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from msgspec import Raw

from mcpd.core.catalog.model import Catalog, Kind, ListError, Listing
from mcpd.core.catalog.paging import Hints, Paging
from mcpd.core.facts import CatalogChanged, Failure
from mcpd.core.mcp import codes
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mcp.versions import Era
from mcpd.core.mux.effects import Effects, Timer
from mcpd.core.mux.requests import Requests
from mcpd.core.wire import envelope

_LISTS: Final = {kind: CLIENT_REQUESTS[kind.method] for kind in Kind}
_GATHER: Final = 0.02  # seconds in which a burst of list changes becomes one
_REFRESH_EVERY: Final = 1.0  # seconds: a server's list changes are acted on so often at most

ListWaiter = Callable[[Listing | None, Failure | None], None]


class ListHost(Protocol):
    """The server whose lists these are."""

    def has(self, capability: str) -> bool:
        """Tell whether the server declared a capability."""

    def keep_lists(self) -> None:
        """Lists of a running process are others now: put them on disk."""

    def lists_changed(self, kind: Kind) -> None:
        """The server said that a list changed, and it has been read anew."""

    def warn(self, text: str) -> None:
        """The server did something odd."""


class Lists:
    """The catalog of one server. Whoever asks for a list while it is read shares the reading."""

    def __init__(
        self, effects: Effects, requests: Requests, catalog: Catalog, host: ListHost
    ) -> None:
        self.catalog = catalog
        self._fx = effects
        self._requests = requests
        self._host = host
        self._reading: dict[Kind, list[tuple[ListWaiter, bool]]] = {}
        """Who waits for a list that is being read, and whether that may be done once more."""
        self._hints: dict[Kind, tuple[Hints, float]] = {}
        """How long lists may be kept, and when they were read; none for a copy from the disk."""
        self._early: set[Kind] = set()
        """Lists that changed before the process was ready."""
        self._refresh_at: dict[Kind, float] = {}
        self._refresh_timers: dict[Kind, Timer] = {}

    def hints(self, kind: Kind, now: float) -> tuple[int, str]:
        """Return ``ttlMs``, less the age of our copy, and ``cacheScope`` of a list.

        ``now`` is monotonic seconds.
        """
        hints, read_at = self._hints.get(kind, (Hints(), now))
        left = hints.less(now - read_at)
        return left.ttl_ms, left.scope

    def listing(self, kind: Kind, waiter: ListWaiter) -> None:
        """Give a list: what is known at once, else what a running process says."""
        known = self.catalog.get(kind)
        if known is not None:
            waiter(known, None)
            return

        def ready(failure: Failure | None) -> None:
            known = self.catalog.get(kind)
            if known is not None or failure is not None:
                waiter(known, failure)
            else:
                self.read(kind, waiter, may_repeat=self._requests.entry.may_repeat)

        self._requests.when_ready(ready)

    def read(self, kind: Kind, waiter: ListWaiter, *, may_repeat: bool = False) -> None:
        """Read a list anew, page by page; one reading at a time serves all who wait.

        With ``may_repeat`` it is done once more where the process dies and comes back.
        """
        if kind in self._reading:
            self._reading[kind].append((waiter, may_repeat))
            return
        if not self._host.has(kind.capability):
            self._take_listing(kind, Listing.empty(kind))
            waiter(self.catalog.get(kind), None)
            return
        self._reading[kind] = [(waiter, may_repeat)]
        self._ask_page(kind, Paging(kind), None)

    def _ask_page(self, kind: Kind, paging: Paging, cursor: str | None) -> None:
        params = b"{}" if cursor is None else b'{"cursor":%b}' % envelope.quote(cursor)

        def take(result: Raw | bytes | None, error: Raw | bytes | None) -> None:
            if result is None:
                self._list_failed(kind, paging, error)
                return
            try:
                is_modern = self._requests.era is Era.MODERN
                following = paging.take(result, is_modern=is_modern)
            except ListError as problem:
                self._keep_previous(kind, paging, problem.message)
                return
            if following is not None:
                self._ask_page(kind, paging, following)
                return
            for note in paging.notes:
                self._host.warn(note)
            self._take_listing(kind, paging.listing(), paging.hints)
            self._end_reading(kind)

        self._requests.ask(_LISTS[kind], params, take)

    def _list_failed(self, kind: Kind, paging: Paging, error: Raw | bytes | None) -> None:
        members = envelope.object_of(error or b"{}") or {}
        if bytes(members.get("code", Raw(b""))) == b"%d" % codes.METHOD_NOT_FOUND:
            self._take_listing(kind, Listing.empty(kind))  # declared and missing: empty, not broken
            self._end_reading(kind)
        else:
            said = bytes(error or b"null").decode("utf-8", "replace")[:300]
            self._keep_previous(kind, paging, f"{kind.method} failed: {said}")

    def _keep_previous(self, kind: Kind, paging: Paging, why: str) -> None:
        if self.catalog.get(kind) is None:
            self._take_listing(kind, paging.listing())
            self._host.warn(f"{why}; what was read so far is kept")
        else:
            self._host.warn(f"{why}; the previous list stays")
        self._end_reading(kind)

    def _end_reading(self, kind: Kind) -> None:
        for waiter, _ in self._reading.pop(kind, []):
            waiter(self.catalog.get(kind), None)

    def _take_listing(self, kind: Kind, listing: Listing, hints: Hints | None = None) -> None:
        self._hints[kind] = (hints or Hints(), self._fx.now)
        if self.catalog.get(kind) == listing:
            return
        self.catalog = self.catalog.replaced(kind, listing)
        self._fx.tell(CatalogChanged(self._requests.entry.name, kind.value, len(listing)))
        if self._requests.is_ready:
            self._host.keep_lists()

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        """The server said so: read these again soon, a burst as one, once a second at most."""
        for kind in kinds:
            self._hints.pop(kind, None)
            if kind in self._refresh_timers:
                continue
            due = max(self._fx.now + _GATHER, self._refresh_at.get(kind, 0.0) + _REFRESH_EVERY)

            def refresh(kind: Kind = kind) -> None:
                self._refresh_timers.pop(kind, None)
                self._refresh_at[kind] = self._fx.now
                if not self._requests.is_ready:
                    self._early.add(kind)
                    return
                if self.catalog.get(kind) is None:
                    self._host.lists_changed(kind)
                else:
                    self.read(kind, lambda listing, failure: self._refreshed(kind, failure))

            self._refresh_timers[kind] = self._fx.after(due - self._fx.now, refresh)

    def opened(self) -> None:
        """The process is ready: read anew what changed while others were still being read."""
        early, self._early = self._early, set()
        self.compare(early)

    def compare(self, kinds: Iterable[Kind]) -> None:
        """Read lists that are known anew, and tell of those that are others."""
        for kind in kinds:
            before = self.catalog.get(kind)
            if before is not None:
                self.read(kind, self._if_other(kind, before))

    def _if_other(self, kind: Kind, before: Listing) -> ListWaiter:
        def taken(listing: Listing | None, failure: Failure | None) -> None:
            if failure is None and listing != before:
                self._host.lists_changed(kind)

        return taken

    def _refreshed(self, kind: Kind, failure: Failure | None) -> None:
        if failure is None:  # else the next process will be compared with what is known
            self._host.lists_changed(kind)

    def lose(self, failure: Failure, *, comes_back: bool) -> None:
        """The process is gone: nothing that is being read will come from it."""
        for timer in self._refresh_timers.values():
            timer.cancel()
        self._refresh_timers.clear()
        self._early.clear()
        readers, self._reading = self._reading, {}
        for kind, waiters in readers.items():
            for waiter, may_repeat in waiters:
                if comes_back and may_repeat:
                    self._read_again(kind, waiter)
                else:
                    waiter(None, failure)

    def _read_again(self, kind: Kind, waiter: ListWaiter) -> None:
        def ready(failure: Failure | None) -> None:
            if failure is None:
                self.read(kind, waiter)
            else:
                waiter(None, failure)

        self._requests.when_ready(ready)
